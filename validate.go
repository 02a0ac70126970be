package metier

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/confusable"
	"metier/internal/nfkc"
	"metier/internal/skillname"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// standardFields are the fields the specification defines.
var standardFields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}

// newSkill turns what was read into a skill, under the settings of parsing and
// naming. Nothing is dropped: what cannot be used has State Refused and a
// diagnostic of severity error.
func newSkill(h *Head, m Mount, parse settings.Parse, names settings.Names) Skill {
	if m.Parse != nil {
		parse = *m.Parse
	}
	if m.ByPath {
		names.Identity, parse.NameCharset = settings.IdentityPath, settings.NameCharsetAny
		if parse.Validation == settings.ValidationStrict {
			parse.Validation = settings.ValidationLenient
		}
	}
	sk := Skill{ID: ID{m.Label, h.Path}, Tier: m.Tier.Or(), State: Loaded, Head: h, Root: m.Root, Digest: h.Digest,
		Diagnostics: slices.Clone(h.Diagnostics), ModelInvocable: true, UserInvocable: true}
	if m.Target != "" {
		sk.target = path.Join(m.Target, h.Path)
	}
	folder := folderName(h, m)
	sk.Name = folder
	if names.Identity == settings.IdentityName && (m.Root != "" || h.Path != ".") {
		sk.folder = folder
	}
	f := &h.Front
	sk.ModelInvocable = !f.DisableModelInvocation
	if f.UserInvocable != nil {
		sk.UserInvocable = *f.UserInvocable
	}
	sk.reportYAML(folder, parse.YAMLReport)
	if h.Escaped || h.Empty || h.Broken {
		sk.State = Refused
		return sk
	}
	if h.Size > skillMax {
		return sk.refuse("skill-too-large", fmt.Sprintf("SKILL.md has %d bytes; at most %d are read", h.Size, int64(skillMax)))
	}
	if h.Plain && parse.NoFrontmatter != settings.NoFrontmatterFollow {
		if parse.NoFrontmatter == settings.NoFrontmatterReject {
			return sk.refuse("no-frontmatter", "SKILL.md has no frontmatter")
		}
		sk.Description = firstOf(h.FirstParagraph, folder)
		return sk
	}
	sk.checkPlatform(cmp.Or(m.OS, runtime.GOOS), parse)
	sk.checkRepairs(parse)
	sk.checkName(folder, parse, names)
	sk.checkDescription(folder, parse)
	sk.checkLength("compatibility", f.Compatibility, parse.CompatibilityMax, parse)
	if parse.UnknownFields == settings.UnknownFieldsReject {
		for _, fl := range f.Fields {
			if !slices.Contains(standardFields, fl.Key) && !exempt(fl.Key, parse.KnownExtensions) {
				sk = sk.refuse("unexpected-field", "field "+termtext.Quote(fl.Key)+" is not one of "+strings.Join(standardFields, ", "))
			}
		}
	}
	return sk
}

// exempt reports whether a field is a known extension the setting lets pass.
func exempt(key string, known settings.KnownExtensions) bool {
	return known == settings.KnownExtensionsClaude && slices.Contains([]string{"when_to_use", "when-to-use", "argument-hint", "arguments", "disable-model-invocation",
		"user-invocable", "model", "effort", "context", "agent", "hooks", "paths", "shell"}, key)
}

func folderName(h *Head, m Mount) string {
	if h.Path == "." || h.Path == "" {
		return filepath.Base(m.Root)
	}
	return path.Base(h.Path)
}

func (sk Skill) refuse(code, detail string) Skill {
	sk.State = Refused
	sk.note(skillmd.Error, code, detail)
	return sk
}

func (sk *Skill) note(severity skillmd.Severity, code, detail string) {
	sk.Diagnostics = append(sk.Diagnostics, Diagnostic{Severity: severity, Code: code, Detail: detail, Path: sk.Head.Location})
}

// checkRepairs refuses a frontmatter that could be read only after repairs, where validation is strict.
func (sk *Skill) checkRepairs(parse settings.Parse) {
	for i, d := range sk.Diagnostics {
		if d.Repair() && unreadable(d, parse) {
			sk.Diagnostics[i].Severity, sk.State = skillmd.Error, Refused
		}
	}
}

// reportYAML words what is no YAML as the setting says: Keen has its own sentence.
func (sk *Skill) reportYAML(folder string, how settings.YAMLReport) {
	for i, d := range sk.Diagnostics {
		if !d.NotYAML() || how == settings.YAMLReportDiagnostic {
			continue
		}
		message := "Skill " + termtext.Line(folder) + " failed to load due to YAML parsing issue"
		if how == settings.YAMLReportBoth {
			message += ": " + d.Detail
		}
		sk.Diagnostics[i].Detail = message
	}
}

// unreadable reports a finding with which no field may be taken from the frontmatter.
func unreadable(d Diagnostic, parse settings.Parse) bool {
	return d.Severity == skillmd.Error || d.Repair() && parse.Validation == settings.ValidationStrict
}

func (sk *Skill) checkName(folder string, parse settings.Parse, names settings.Names) {
	name := strings.TrimSpace(sk.Head.Front.Name)
	if !sk.Head.Front.HasName || name == "" {
		if parse.MissingName == settings.MissingNameReject {
			*sk = sk.refuse("missing-name", "the frontmatter has no name")
			return
		}
		sk.note(skillmd.Warning, "missing-name", "the frontmatter has no name; the folder's name is used")
		name = folder
	}
	problems := skillname.Problems(name, parse.NameCharset == settings.NameCharsetAny, parse.NameCharset == settings.NameCharsetASCII)
	if names.Identity != settings.IdentityPath && nfkc.String(name) != nfkc.String(folder) {
		problems = append(problems, [2]string{"name-directory-mismatch", fmt.Sprintf("the name is %s, but the folder is %s", termtext.Quote(name), termtext.Quote(folder))})
	}
	for _, p := range problems {
		switch {
		case parse.Validation == settings.ValidationStrict, p[0] == "name-unusable",
			names.Identity == settings.IdentityEqual && p[0] == "name-directory-mismatch":
			*sk = sk.refuse(p[0], p[1])
		case parse.Validation == settings.ValidationLenient:
			sk.note(skillmd.Warning, p[0], p[1])
		}
	}
	if mixed := confusable.Mixed(name); mixed != "" {
		sk.note(skillmd.Warning, "mixed-script-name", mixed)
	}
	switch names.Identity {
	case settings.IdentityFolder:
		name = folder
	case settings.IdentityPath:
		name = sk.ID.Path
	}
	sk.Name = name
}

// reserved refuses a skill that has the name of a server's skill and is none: it
// would answer in that one's place.
func (sk Skill) reserved(m Mount) Skill {
	if m.Space != "" || sk.State == Refused || !strings.HasPrefix(foldName(sk.Name), policy.ServedPrefix) {
		return sk
	}
	name := sk.Name
	sk.Name = sk.ID.String() // nor does it keep the name from that one
	return sk.refuse("name-reserved", "the name "+termtext.Quote(name)+" is one of a server's skill")
}

// checkPlatform hides or refuses a skill that names operating systems and not
// this one.
func (sk *Skill) checkPlatform(system string, parse settings.Parse) {
	if parse.PlatformFilter == settings.PlatformFilterOff || parse.PlatformFilter == "" {
		return
	}
	fits, said := sk.Head.Front.Fits(system)
	if fits {
		return
	}
	detail := "it is for " + termtext.Line(joined(said, len(said))) + ", and this is " + system
	if parse.PlatformFilter == settings.PlatformFilterRefuse {
		*sk = sk.refuse("other-platform", detail)
		return
	}
	sk.State = Hidden
	sk.note(skillmd.Warning, "other-platform", detail)
}

func (sk *Skill) checkDescription(folder string, parse settings.Parse) {
	d := strings.TrimSpace(sk.Head.Front.Description)
	sk.checkLength("description", d, descMax, parse)
	if sk.Head.Front.HasDescription && d != "" {
		sk.Description = d
		return
	}
	switch parse.MissingDescription {
	case settings.MissingDescriptionFolder:
		sk.note(skillmd.Warning, "missing-description", "there is no description; the folder's name is used")
		sk.Description = folder
		return
	case settings.MissingDescriptionParagraph:
		if p := sk.Head.FirstParagraph; p != "" {
			sk.note(skillmd.Warning, "missing-description", "there is no description; the first paragraph is used")
			sk.Description = p
			return
		}
	}
	*sk = sk.refuse("missing-description", "there is no description")
}

// checkLength holds a field to at most most characters; 0 is no limit.
func (sk *Skill) checkLength(field, text string, most int, parse settings.Parse) {
	n := utf8.RuneCountInString(text)
	if n <= most || most == 0 || parse.Validation == settings.ValidationMinimal {
		return
	}
	code, detail := field+"-too-long", fmt.Sprintf("%s has %d characters, more than %d", field, n, most)
	if parse.Validation == settings.ValidationStrict {
		*sk = sk.refuse(code, detail)
		return
	}
	sk.note(skillmd.Warning, code, detail)
}

func foldName(s string) string { return strings.ToLower(nfkc.String(strings.TrimSpace(s))) }

// matchKey is how a name is compared (conflicts row 7).
func matchKey(m settings.Match) func(string) string {
	switch m {
	case settings.MatchCasefold:
		return foldName
	case settings.MatchNFKC:
		return func(s string) string { return nfkc.String(strings.TrimSpace(s)) }
	}
	return func(s string) string { return s }
}

// trust orders tiers for protected names; project and user count the same.
func trust(t policy.Tier) int {
	switch t {
	case policy.Builtin:
		return 3
	case policy.Org:
		return 2
	case policy.Project, policy.User:
		return 1
	}
	return 0
}

func firstOf(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}
