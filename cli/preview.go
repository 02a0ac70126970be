package cli

import (
	"fmt"
	"strconv"
	"strings"

	"metier/install"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/scan"
)

// showChanges prints what a plan changes, and what there is to know about each new skill before it is
// installed.
func (a *app) showChanges(p *install.Plan) {
	t := table{heads: []string{"", "NAME", "FILES", "SIZE", "DESCRIPTION"}, right: []int{2, 3}, width: a.columns()}
	for _, c := range p.Changes {
		files, size := "", ""
		if c.Action != install.Remove {
			files, size = strconv.Itoa(len(c.Entry.Files)), plural.Thousands(c.Bytes)
		}
		t.add(string(c.Action), c.Name, files, size, c.Skill.Description)
		for _, l := range c.Links {
			t.add("link", l, "", "", "")
		}
	}
	t.print(a.Out, "")
	for _, c := range p.Changes {
		if c.Scan != nil {
			a.preview(c)
		}
	}
}

// preview prints what the files of a new skill ask for, contain, and can do.
func (a *app) preview(c install.Change) {
	t := table{}
	line := func(name, text string) {
		switch width := a.columns(); {
		case text == "":
		case width == 0:
			t.add(name, termtext.Line(text))
		default: // so that no line of the text begins where lines of metier do
			const first = 17 // the indentation, and the longest name
			t.addWrapped(1, width-first, name, termtext.Line(text))
		}
	}
	line("plugin", c.Entry.Plugin)
	line("needed by", some(c.NeededBy))
	line("requires", some(c.Skill.Head.Front.Requires))
	line("compatibility", c.Skill.Head.Front.Compatibility)
	line("signature", signedBy(c))
	line("allowed-tools", strings.Join(c.Skill.Head.Front.AllowedTools, " "))
	line("programs", some(c.Programs()))
	if r := c.Scan; r != nil {
		var can []string
		for _, ability := range r.Blast {
			can = append(can, ability.Name)
		}
		line("can", strings.Join(distinct.Of(can), ", "))
		line("hosts", someOf(r.Hosts, len(r.Hosts)+r.UnlistedHosts))
		if n := r.Coverage.Unread.Files; n > 0 {
			line("not scanned", plural.Of(n, "file"))
		}
		for _, text := range deciding(r.Findings) {
			line(string(r.Verdict), text)
		}
	}
	for _, d := range c.Skill.Diagnostics {
		line(string(d.Severity), d.Detail)
	}
	if len(t.rows) > 0 {
		fmt.Fprintf(a.Out, "\n%s\n", oneLine(c.Name))
		t.print(a.Out, "  ")
	}
}

// deciding returns a line for each kind of finding that decides the verdict, with its first place.
func deciding(findings []scan.Finding) []string {
	first, count, titles := map[string]string{}, map[string]int{}, []string{}
	for _, f := range findings {
		if !f.Decides() {
			continue
		}
		if count[f.Title]++; count[f.Title] == 1 {
			first[f.Title], titles = placeOf(f), append(titles, f.Title)
		}
	}
	for i, title := range titles {
		more := ""
		if n := count[title]; n > 1 {
			more = ", and " + plural.Of(n-1, "more place")
		}
		titles[i] = fmt.Sprintf("%s (%s%s)", title, first[title], more)
	}
	return titles
}

// signedBy describes the signers of a new skill.
func signedBy(c install.Change) string {
	var out []string
	for _, s := range c.Signature.Signers {
		text := s.ID + ", who is not in a policy file"
		if s.Name != "" {
			text = s.Name + " (" + s.ID + ")"
		}
		out = append(out, "signed by "+text)
	}
	if c.Signature.Approved {
		out = append(out, "approved by a policy file")
	}
	for _, u := range c.Signature.Unknown {
		out = append(out, "not checked: "+u)
	}
	if len(out) == 0 {
		out = append(out, "none")
	}
	if were := c.SignersWere(); len(were) > 0 {
		out = append(out, "before, signed by "+strings.Join(were, ", "))
	}
	return strings.Join(out, "; ")
}

// placeOf returns where a finding is.
func placeOf(f scan.Finding) string {
	if f.Line == 0 {
		return f.File
	}
	return f.File + ":" + strconv.Itoa(f.Line)
}

// some joins the first items of a list.
func some(list []string) string { return someOf(list, len(list)) }

// someOf joins the first items of a list that has some of all items.
func someOf(list []string, all int) string {
	shown := list[:min(len(list), 8)]
	text := strings.Join(shown, " ")
	if all > len(shown) {
		text += fmt.Sprintf(" and %d more", all-len(shown))
	}
	return text
}
