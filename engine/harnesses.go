package engine

import (
	"context"
	"slices"
	"strings"

	"metier"
	"metier/harness"
	"metier/internal/distinct"
	"metier/settings"
	"metier/skillroots"
)

// harnessLayer sets the tools of harnesses to their standard names, whatever the profile calls
// them.
func harnessLayer(named []string) settings.Layer {
	if len(named) == 0 {
		return settings.Layer{}
	}
	return settings.Layer{Name: "Request.Harnesses", Operator: true, Values: map[string]string{
		"tool_load": "load_skill", "tool_resource": "load_reference", "tool_list": "list_content", "tool_script": "run_script"}}
}

// harnessTools adds the tools that find and read harnesses to a set of default tools. A harness
// could not be read without them.
func harnessTools(tools []string, roots []skillroots.Root) []string {
	if !slices.ContainsFunc(roots, func(r skillroots.Root) bool { return r.Harness }) {
		return tools
	}
	return distinct.Of(append(slices.Clone(tools), settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolListSkills, settings.ToolLoadContent))
}

// harnessed reports whether one of the launch's roots is a harness.
func (l Launch) harnessed() bool {
	return slices.ContainsFunc(l.Roots, func(r skillroots.Root) bool { return r.Harness && !r.Unused })
}

// byPath returns the tools of harnesses.
func (r *Run) byPath() []metier.Tool {
	if !r.launch.harnessed() {
		return nil
	}
	return harness.Tools(r.settings.Tools)
}

// checkHarnesses returns an error if a harness that the operator named is empty.
func checkHarnesses(ctx context.Context, snap *metier.Snapshot, roots []skillroots.Root) error {
	labels, list, err := harness.Of(ctx, snap)
	if err != nil {
		return err
	}
	for i, h := range list {
		if err := h.Err(); err != nil && isNamed(roots, labels[i]) {
			return err
		}
	}
	return nil
}

func isNamed(roots []skillroots.Root, label string) bool {
	return slices.ContainsFunc(roots, func(r skillroots.Root) bool { return r.Label == label && r.Named })
}

// loads reports whether a harness is loaded at the start of the session.
func (r *Run) loads(label string, h *harness.Harness) bool {
	return h.Err() == nil && (isNamed(r.launch.Roots, label) || r.settings.Activate.AtStart())
}

// CodeHarness is the code of a notice that introduces a harness.
const CodeHarness = "harness"

// presentHarnesses introduces the harnesses to the user.
func (r *Run) presentHarnesses(ctx context.Context) error {
	labels, list, err := harness.Of(ctx, r.snapshot)
	for i, h := range list {
		if r.loads(labels[i], h) {
			r.note(CodeHarness, "%s: %s", h.Name, h.Description)
		}
	}
	return err
}

// loadHarnesses adds each HARNESS.md to the session, once.
func (r *Run) loadHarnesses(ctx context.Context, st metier.State) error {
	labels, list, err := harness.Of(ctx, r.session.Snapshot())
	if err != nil {
		return err
	}
	for i, h := range list {
		id := metier.ID{Source: labels[i], Path: "."}.String()
		if !r.loads(labels[i], h) || isActive(st, id) {
			continue
		}
		if _, err := r.session.Activate(ctx, id, sourceRun); err != nil {
			return err
		}
	}
	return nil
}

// harnessDigests returns the digests of a HARNESS.md as it is on disk now.
func (r *Run) harnessDigests(ctx context.Context, id string) (file, tree string, ok bool) {
	label, path, ok := strings.Cut(id, ":")
	if !ok || path != "." {
		return "", "", false
	}
	b, err := r.disk.Open(ctx, metier.ID{Source: label, Path: path})
	if err != nil {
		return "", "", false
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil || len(m.Files) != 1 {
		return "", "", false
	}
	return string(m.Files[0].Digest), string(m.Tree), true
}
