package run

import (
	"slices"

	"metier"
)

// FindOwn is like [Find], except that "latest" must not be a record that somebody else put between
// this user's runs. If this user has recorded heads of runs in the folder, but none of the newest
// one, the error has the code run_unwitnessed.
func FindOwn(root, what string, o *Options) (string, string, error) {
	root, id, err := Find(root, what)
	if err != nil || what != latest || Known(root, id, o) {
		return root, id, err
	}
	ids, err := runs(root)
	if err != nil {
		return "", "", err
	}
	if slices.ContainsFunc(ids, func(id string) bool { return Known(root, id, o) }) {
		return "", "", wrong(metier.Denied, CodeStranger, root, "'metier runs list' shows all runs; write the ID of the run that you mean",
			"the newest run is %q, but nothing on this machine shows that you wrote its record, unlike those of other runs here", id)
	}
	return root, id, nil
}
