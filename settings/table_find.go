package settings

import (
	"slices"
	"strings"

	"metier/internal/agentdirs"
)

// families are the agents whose skill folders are known.
func families() []value[Family] {
	var out []value[Family]
	for _, a := range agentdirs.All() {
		meaning := a.Title + ": " + strings.Join(a.Project, ", ")
		switch {
		case len(a.Project) == 0:
			meaning = a.Title + ": in the home " + strings.Join(a.Home, ", ")
		case len(a.Home) > 0 && !slices.Equal(a.Project, a.Home):
			meaning += "; in the home " + strings.Join(a.Home, ", ")
		}
		out = append(out, value[Family]{Family(a.Name), meaning})
	}
	return out
}

func discoverRows() []Row {
	return []Row{
		set("roots", "Which roots are searched without being named. Named roots are always searched.", "none",
			func(s *Settings) *Set[Root] { return &s.Discover.Roots }, []value[Root]{
				{RootBuiltin, "the skills that come with metier"},
				{RootOrg, "the skills of the machine: /etc/metier/skills"},
				{RootProject, "the skill folders of the workspace"},
				{RootHome, "the skill folders of the home"},
				{RootEnv, "roots named by environment variables"},
				{RootDB, "skills stored per project; no store yet"},
				{RootHarness, "the workspace, where it is a harness: a folder with HARNESS.md"},
			}),
		set("root_families", "Whose skill folders auto:project, auto:home and env search, in this order.", "none",
			func(s *Settings) *Set[Family] { return &s.Discover.Families }, families()),
		choice("root_ancestors", "Whether auto:project means the folders above the workspace too.",
			func(s *Settings) *Ancestors { return &s.Discover.Ancestors }, []value[Ancestors]{
				{AncestorsNo, "the workspace's own skill folders only"},
				{AncestorsYes, "those above it too, up to the folder that holds .git; never the home, and no folder that others can write"},
			}),
		choice("root_scope", "Where a root may lie.",
			func(s *Settings) *RootScope { return &s.Discover.RootScope }, []value[RootScope]{
				{RootScopeWorkspace, "inside the workspace, or in a declared mount"},
				{RootScopeAllowlisted, "also in a folder the operator listed"},
				{RootScopeAnywhere, "wherever the operator says"},
			}),
		choice("scan", "How deep a root is searched for skills.",
			func(s *Settings) *Scan { return &s.Discover.Scan }, []value[Scan]{
				{ScanChildren, "the root itself or its direct children"},
				{ScanRecursive, "any depth, up to the caps"},
				{ScanGrouped, "any depth; of a harness, groups and documents are entries too"},
			}),
		choice("nested_skills", "Whether the folder of a skill is searched for more skills.",
			func(s *Settings) *Nested { return &s.Discover.Nested }, []value[Nested]{
				{NestedNo, "what lies in it are its files"},
				{NestedYes, "a skill in it is a skill of its own, and its files are the outer one's too"},
			}),
		choice("file_names", "Which file names make an entry.",
			func(s *Settings) *FileNames { return &s.Discover.FileNames }, []value[FileNames]{
				{FileNamesExact, "SKILL.md"},
				{FileNamesLower, "SKILL.md, else skill.md"},
				{FileNamesHarness, "SKILL.md; of a harness HARNESS.md and the summaries of groups too"},
			}),
		choice("symlinks", "What becomes of symbolic links. One that leaves its bounds is never followed.",
			func(s *Settings) *Symlinks { return &s.Discover.Symlinks }, []value[Symlinks]{
				{SymlinksIgnore, "links are not followed"},
				{SymlinksInBounds, "links that stay in bounds are resolved once and opened by their target"},
			}),
		choice("reload", "When the snapshot is built again.",
			func(s *Settings) *Reload { return &s.Discover.Reload }, []value[Reload]{
				{ReloadSnapshot, "once, at the start"},
				{ReloadAuto, "per_turn in a conversation, snapshot in a batch run"},
				{ReloadPerTurn, "before each turn"},
				{ReloadTagged, "when a change of the store marks it stale; per_turn until there is one"},
				{ReloadWatch, "when a file changes; per_turn until files are watched"},
				{ReloadPerCall, "whenever it is asked for; a run asks once a turn"},
			}),
		choice("resource_index", "When the files of a skill are indexed and hashed.",
			func(s *Settings) *ResourceIndex { return &s.Discover.ResourceIndex }, []value[ResourceIndex]{
				{ResourceIndexStart, "with the snapshot"},
				{ResourceIndexActivation, "when the skill is first used"},
			}),
		adding(choice("state_store", "Where it is kept which skills a person switched off. What the operator denies stays denied.",
			func(s *Settings) *StateStore { return &s.Discover.StateStore }, []value[StateStore]{
				{StateStoreProject, "in the workspace's .metier/skills.json, which can only switch off; user_file counts too"},
				{StateStoreUser, "by skill, in metier's state folder"},
				{StateStoreKeen, "by name, in ~/.keen/skills/config.json"},
				{StateStoreNone, "nowhere"},
			})),
		number("max_depth", "Folders below a root that a scan goes down.",
			func(s *Settings) *int { return &s.Discover.MaxDepth }, 1, 64),
		number("max_dirs", "Folders that one scan of one root opens.",
			func(s *Settings) *int { return &s.Discover.MaxDirs }, 1, 10000000),
		number("max_resources", "Files indexed for one skill.",
			func(s *Settings) *int { return &s.Discover.MaxResources }, 1, 1000000),
	}
}

func parseRows() []Row {
	return []Row{
		choice("validation", "How strictly SKILL.md is judged on load.",
			func(s *Settings) *Validation { return &s.Parse.Validation }, []value[Validation]{
				{ValidationStrict, "a skill with an error is refused, and so is frontmatter that had to be repaired"},
				{ValidationLenient, "it is loaded with warnings"},
				{ValidationMinimal, "only name and description are looked at"},
			}),
		choice("name_charset", "Which letters a name may have.",
			func(s *Settings) *NameCharset { return &s.Parse.NameCharset }, []value[NameCharset]{
				{NameCharsetASCII, "lower-case ASCII letters, digits and hyphens"},
				{NameCharsetUnicode, "lower-case letters of any script, digits and hyphens"},
				{NameCharsetAny, "anything on one line"},
			}),
		choice("missing_name", "What becomes of a skill without a name.",
			func(s *Settings) *MissingName { return &s.Parse.MissingName }, []value[MissingName]{
				{MissingNameReject, "it is refused"},
				{MissingNameFolder, "it takes its folder's name"},
			}),
		choice("missing_description", "What becomes of a skill without a description.",
			func(s *Settings) *MissingDescription { return &s.Parse.MissingDescription }, []value[MissingDescription]{
				{MissingDescriptionReject, "it is refused"},
				{MissingDescriptionSkip, "it is left out, with a diagnostic"},
				{MissingDescriptionFolder, "it takes its folder's name"},
				{MissingDescriptionParagraph, "it takes the first paragraph of the body, else it is left out"},
			}),
		choice("no_frontmatter", "What becomes of a SKILL.md without frontmatter.",
			func(s *Settings) *NoFrontmatter { return &s.Parse.NoFrontmatter }, []value[NoFrontmatter]{
				{NoFrontmatterReject, "it is refused"},
				{NoFrontmatterFollow, "as a missing name and a missing description"},
				{NoFrontmatterPlain, "it is a plain Markdown skill named after its folder"},
			}),
		choice("unknown_fields", "What becomes of frontmatter fields that the specification does not name.",
			func(s *Settings) *UnknownFields { return &s.Parse.UnknownFields }, []value[UnknownFields]{
				{UnknownFieldsReject, "an error"},
				{UnknownFieldsIgnore, "dropped"},
				{UnknownFieldsKeep, "kept and shown, without effect"},
			}),
		choice("known_extensions", "Which fields beyond the specification unknown_fields lets pass. A mark that hides a skill counts in any case.",
			func(s *Settings) *KnownExtensions { return &s.Parse.KnownExtensions }, []value[KnownExtensions]{
				{KnownExtensionsNone, "none"},
				{KnownExtensionsClaude, "those of Claude Code, such as disable-model-invocation"},
			}),
		choice("yaml_report", "In what words a frontmatter that is no YAML is reported. Such a skill is never loaded.",
			func(s *Settings) *YAMLReport { return &s.Parse.YAMLReport }, []value[YAMLReport]{
				{YAMLReportUser, "one sentence that names the skill"},
				{YAMLReportDiagnostic, "what is wrong, with line and column"},
				{YAMLReportBoth, "the sentence, then what is wrong"},
			}),
		number("compatibility_max", "Characters that the field compatibility may have.",
			func(s *Settings) *int { return &s.Parse.CompatibilityMax }, 1, 100000),
		choice("platform_filter", "What becomes of a skill that names operating systems, and not this one.",
			func(s *Settings) *PlatformFilter { return &s.Parse.PlatformFilter }, []value[PlatformFilter]{
				{PlatformFilterRefuse, "it is refused"},
				{PlatformFilterHide, "the model is not told of it; it may still be named"},
				{PlatformFilterOff, "it is loaded"},
			}),
	}
}

func namesRows() []Row {
	return []Row{
		choice("identity", "What a skill is called.",
			func(s *Settings) *Identity { return &s.Names.Identity }, []value[Identity]{
				{IdentityEqual, "frontmatter name and folder name must be equal"},
				{IdentityPath, "its path below the root"},
				{IdentityName, "the frontmatter name"},
				{IdentityFolder, "the folder's name"},
			}),
		choice("match", "How a name that is asked for is compared.",
			func(s *Settings) *Match { return &s.Names.Match }, []value[Match]{
				{MatchExact, "byte by byte"},
				{MatchNFKC, "after Unicode normalisation form KC"},
				{MatchCasefold, "trimmed, normalised and case-folded"},
			}),
		order("precedence", "Who wins when two skills have one name, winner first. What is not listed comes last, in the order of the roots.",
			func(s *Settings) *[]string { return &s.Names.Precedence }, kinds),
		choice("protect_names", "Whether a skill of a lower tier may take the name of one of a higher tier.",
			func(s *Settings) *Protect { return &s.Names.Protect }, []value[Protect]{
				{ProtectYes, "it may not, whatever the precedence"},
				{ProtectNo, "precedence decides alone"},
			}),
	}
}

func catalogRows() []Row {
	return []Row{
		choice("catalog_format", "The form of the catalog that the model sees.",
			func(s *Settings) *CatalogFormat { return &s.Catalog.Format }, []value[CatalogFormat]{
				{CatalogFormatNone, "no catalog"},
				{CatalogFormatMarkdown, "a Markdown list"},
				{CatalogFormatJSON, "a JSON object"},
				{CatalogFormatXML, "an available_skills element"},
				{CatalogFormatPaths, "a Markdown list with the path of each SKILL.md"},
			}),
		choice("catalog_place", "Where the catalog stands.",
			func(s *Settings) *CatalogPlace { return &s.Catalog.Place }, []value[CatalogPlace]{
				{CatalogPlaceNone, "nowhere"},
				{CatalogPlaceTool, "in the description of the load tool"},
				{CatalogPlaceSystem, "in the system prompt"},
			}),
		free(choice("empty_catalog", "What the model is told when there is no skill.",
			func(s *Settings) *EmptyCatalog { return &s.Catalog.Empty }, []value[EmptyCatalog]{
				{EmptyCatalogSilent, "nothing"},
				{EmptyCatalogSayNone, "one sentence"},
			})),
		budgeted("catalog_max", "Skills in the catalog; 0: as many as catalog_budget has room for. The number of omitted ones is stated.",
			func(s *Settings) *int { return &s.Catalog.Max }, 100000),
		budgeted("catalog_desc_max", "Characters of one description in the catalog; 0: 1,024, the specification's limit, which no value exceeds.",
			func(s *Settings) *int { return &s.Catalog.DescMax }, 100000),
		budgeted("catalog_budget", "Tokens of the whole catalog, as metier estimates them; 0: any number. What does not fit is told in less words: "+
			"descriptions are cut to one length, then only names are given, then as many names as fit; the model finds the rest with the tool that searches. "+
			"The default is 2 % of a window of 200,000 tokens. The estimate was 1.1 to 1.4 times what tokenizers of two providers counted on Markdown and "+
			"XML catalogs of real skills, and up to 1.7 times on JSON.",
			func(s *Settings) *int { return &s.Catalog.Budget }, 1000000),
		choice("paths", "Which paths of skills the model sees.",
			func(s *Settings) *Paths { return &s.Catalog.Paths }, []value[Paths]{
				{PathsNone, "none; skills are listed with their skillId, which calls take in place of the name"},
				{PathsSkill, "relative to the skill or harness"},
				{PathsRepo, "relative to the repository"},
				{PathsSandbox, "/skills/NAME/..."},
				{PathsAuto, "as sandbox: file tools map what was shown, so no host path has to be"},
				{PathsHost, "paths of the host"},
			}),
	}
}
