package config

import (
	"fmt"
	"path/filepath"

	"metier/internal/digest"
	"metier/internal/skillname"
	"metier/internal/yaml"
	"metier/signature"
)

// signers reads who may sign skills: each has a name and exactly one key, or a Sigstore identity with its issuer.
func (r *policyReader) signers(n *yaml.Node) {
	const example = "- name: acme, with ssh: KEY, minisign: KEY, or issuer: ADDRESS and identity: WHO"
	for _, item := range r.list("signers", n) {
		if item.Kind != yaml.Map {
			r.fault(item, "a signer is a map, such as %s", example)
			continue
		}
		before := len(r.faults)
		var t signature.Trusted
		var ids []string
		issuer, identity := "", ""
		key := func(of string, id func(string) (string, error)) func(*yaml.Node) {
			return func(v *yaml.Node) {
				s, ok := r.text(of, v)
				if !ok {
					return
				}
				got, err := id(s)
				if err != nil {
					r.fault(v, "%s: %v", of, err)
				}
				ids = append(ids, got)
			}
		}
		seen := r.entries("a signer", item, map[string]func(*yaml.Node){
			"name":     func(v *yaml.Node) { t.Name, _ = r.text("name", v) },
			"ssh":      key("ssh", signature.SSHKey),
			"minisign": key("minisign", signature.MinisignKey),
			"issuer":   func(v *yaml.Node) { issuer, _ = r.text("issuer", v) },
			"identity": key("identity", func(s string) (string, error) { identity = s; return "", nil }),
			"skills":   func(v *yaml.Node) { t.Skills = r.nonempty("skills", v, checkSkillName) },
			"sources":  func(v *yaml.Node) { t.Sources = r.nonempty("sources", v, signature.CheckSource) },
		})
		switch {
		case !seen["name"]:
			r.fault(item, "the signer has no name")
		case len(ids) != 1 || seen["issuer"] != seen["identity"]:
			r.fault(item, "a signer has exactly one key: %s", example)
		case identity != "":
			id, err := signature.SigstoreSigner(issuer, identity)
			if err != nil {
				r.fault(item, "%v", err)
			}
			ids[0] = id
		}
		if len(r.faults) == before {
			t.ID = ids[0]
			r.out.Trust.Signers = append(r.out.Trust.Signers, t)
		}
	}
}

// nonempty reads a list that limits something, so that an empty list is not without a limit.
func (r *policyReader) nonempty(key string, n *yaml.Node, check func(string) error) []string {
	if n.Kind == yaml.List && len(n.Items) == 0 {
		r.fault(n, "%s is empty; omit the key for no limit", key)
	}
	return r.texts(key, n, check)
}

// checkSkillName reports a text that cannot be the name of the folder of an installed skill.
func checkSkillName(s string) error {
	if len(s) > skillname.Max || filepath.Base(s) != s {
		return fmt.Errorf("%q is not the name of a skill", short(s))
	}
	return nil
}

// approvedSkills reads skills that need no signature, as they are.
func (r *policyReader) approvedSkills(n *yaml.Node) {
	for _, item := range r.list("approved_skills", n) {
		if item.Kind != yaml.Map {
			r.fault(item, "an approved skill has the keys name and tree")
			continue
		}
		before := len(r.faults)
		var s signature.Statement
		seen := r.entries("an approved skill", item, map[string]func(*yaml.Node){
			"name": func(v *yaml.Node) { s.Name, _ = r.text("name", v) },
			"tree": func(v *yaml.Node) { s.Tree, _ = r.text("tree", v) },
		})
		switch {
		case !seen["name"] || !seen["tree"]:
			r.fault(item, "an approved skill has the keys name and tree")
		case len(r.faults) > before:
		case checkSkillName(s.Name) != nil:
			r.fault(item, "%v", checkSkillName(s.Name))
		case !digest.Valid(s.Tree):
			r.fault(item, "%q is not the digest of a tree, which is sha256: and 64 digits; 'metier sign FOLDER' prints it", short(s.Tree))
		default:
			r.out.Trust.Approved = append(r.out.Trust.Approved, s)
		}
	}
}
