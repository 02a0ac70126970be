// Package signature checks who vouches for a skill: its signers, and a list of skills that an
// operator approved.
//
// What is signed is a [Statement]: the name of a skill, and the digest of its files. Signatures are
// files of the skill, beside SKILL.md, and are not part of what is signed. A skill can have several.
// Each of them must be valid; one that is not is a [BadError].
//
// A [Trust] has what an operator decided: which sources skills may come from, and who may sign them.
// A signature that names its key, as SSH signatures do, can also be checked without a decision. It
// then proves that two versions have the same signer, not who that is.
package signature
