package exectool

import (
	"context"
	"io"
	"strings"
	"testing"

	"metier"
	"metier/internal/digest"
)

// oneFile is a bundle in which each file has the same content.
type oneFile struct {
	metier.Bundle
	content string
}

func (b oneFile) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(b.content)), nil
}

// A file is compared with the index by its size and by its digest.
//
// req: A-070
func TestVerified_ComparesSizeAndDigest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		size    int64
		indexed string
		code    string
	}{
		{4, "here", ""}, {-1, "here", ""}, {5, "here", "script_snapshot_mismatch"}, {3, "here", "script_snapshot_mismatch"}, {4, "there", "script_snapshot_mismatch"}, {-1, "there", "script_snapshot_mismatch"},
	} {
		f := metier.Resource{File: metier.File{Path: "scripts/a.sh", Size: tt.size, Digest: metier.Digest(digest.Bytes([]byte(tt.indexed)))}}
		data, err := verified(t.Context(), oneFile{content: "here"}, metier.Skill{Name: "demo"}, f)
		code := ""
		if err != nil {
			code = metier.CodeOf(err)
		}
		if code != tt.code || (string(data) == "here") != (code == "") {
			t.Errorf("%d bytes of %q: %q, %v", tt.size, tt.indexed, data, err)
		}
	}
}
