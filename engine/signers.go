package engine

import (
	"metier"
	"metier/config"
	"metier/install"
	"metier/settings"
	"metier/signature"
)

// trust returns what the policy files of the configuration and of a request say about sources and
// signers of skills.
func (e *Engine) trust(flags []string, op config.Operator) (t signature.Trust, err error) {
	files, err := e.policyFiles(flags, op)
	if err != nil {
		return t, err
	}
	var roots []string
	for _, p := range files {
		f, err := config.ReadPolicy(p)
		if err != nil {
			return t, err
		}
		t.Add(f.Trust)
		roots = append(roots, f.SigstoreRoots...)
	}
	if e.o.Verifiers != nil {
		t.Verifiers, err = e.o.Verifiers(roots)
	}
	return t, err
}

// requiresSigner reports whether a skill must have a signer that a policy file names.
func requiresSigner(s settings.Settings) bool {
	return s.Install.Signature == settings.InstallSignatureRequired
}

// listed returns an error if a source on another machine must be in a policy file, and is not.
func (in *Installation) listed(s install.Source) error {
	if s.Local() || in.Settings.Install.Sources != settings.InstallSourcesListed || signature.Listed(in.trust.Sources, s.Location) {
		return nil
	}
	return metier.Fieldf(metier.Denied, "Request.Policies", "source_not_listed", "add it to sources in a policy file of yours; an address with a user, a query, or encoded characters cannot be listed",
		"the setting install_sources requires that a policy file lists the source, and none lists %s", s.Location)
}
