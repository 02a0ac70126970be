package userstate_test

import (
	"strings"
	"testing"

	"metier"
	"metier/userstate"
)

// An approval without its author would void all others in the file.
func TestStore_ApproveRefusesIncompleteApprovals(t *testing.T) {
	t.Parallel()
	st := userstate.Store{Dir: t.TempDir()}
	whole := userstate.Approval{ID: "q-1", Binds: strings.Repeat("a", 64), By: "ann"}
	if _, err := st.Approve(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	for _, p := range []userstate.Approval{{ID: "q-2", Binds: strings.Repeat("b", 64)}, {ID: "q-2", By: "ann"}, {Binds: strings.Repeat("b", 64), By: "ann"}} {
		if _, err := st.Approve(t.Context(), p); metier.KindOf(err) != metier.Invalid {
			t.Errorf("Approve(%+v) = %v, want an error of kind invalid", p, err)
		}
	}
	list, err := st.Approvals()
	if err != nil || len(list) != 1 || list[0].By != "ann" {
		t.Errorf("Approvals() = %+v, %v", list, err)
	}
}
