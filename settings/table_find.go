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
			meaning = a.Title + ": in the home directory: " + strings.Join(a.Home, ", ")
		case len(a.Home) > 0 && !slices.Equal(a.Project, a.Home):
			meaning += "; in the home directory: " + strings.Join(a.Home, ", ")
		}
		out = append(out, value[Family]{Family(a.Name), meaning})
	}
	return out
}

func discoverRows() []Row {
	return []Row{
		keeping(set("roots", "Roots that are searched by default. Roots that you specify are always searched.", "none",
			func(s *Settings) *Set[Root] { return &s.Discover.Roots }, []value[Root]{
				{RootBuiltin, "the skills that come with metier"},
				{RootOrg, "the skills for the whole machine, in /etc/metier/skills"},
				{RootProject, "the skill folders in the workspace"},
				{RootHome, "the skill folders in the home directory"},
				{RootEnv, "the folders listed in AGENT_SKILLS_DIRS"},
				{RootDB, "skills stored per project; the store is not implemented yet"},
				{RootHarness, "the workspace, if it is a harness (a folder with HARNESS.md)"},
			}), string(RootProject), string(RootEnv), string(RootHarness)),
		set("root_families", "The agents whose skill folders are searched by auto:project, auto:home, and env. They are searched in the order of the values below or, for env, in the order of AGENT_SKILLS_DIRS.", "none",
			func(s *Settings) *Set[Family] { return &s.Discover.Families }, families()),
		choice("root_ancestors", "Whether auto:project includes the folders above the workspace.",
			func(s *Settings) *Ancestors { return &s.Discover.Ancestors }, []value[Ancestors]{
				{AncestorsNo, "only the workspace's own skill folders"},
				{AncestorsYes, "also the skill folders in the folders above the workspace, up to the one with .git, except the home directory and folders that other users can write to"},
			}),
		choice("root_scope", "Where a root may be.",
			func(s *Settings) *RootScope { return &s.Discover.RootScope }, []value[RootScope]{
				{RootScopeWorkspace, "inside the workspace, or in a declared mount"},
				{RootScopeAllowlisted, "also in a folder that the operator listed"},
				{RootScopeAnywhere, "in any folder that the operator specifies"},
			}),
		choice("scan", "How deeply a root is searched for skills.",
			func(s *Settings) *Scan { return &s.Discover.Scan }, []value[Scan]{
				{ScanChildren, "the root or its direct subfolders"},
				{ScanRecursive, "any depth, up to the limits"},
				{ScanGrouped, "any depth; in a harness, groups and documents are also entries"},
			}),
		choice("nested_skills", "Whether a skill's folder is searched for more skills.",
			func(s *Settings) *Nested { return &s.Discover.Nested }, []value[Nested]{
				{NestedNo, "all files in the folder belong to the skill"},
				{NestedYes, "a skill inside it is separate, but its files also belong to the outer skill"},
			}),
		choice("file_names", "Which file names define an entry.",
			func(s *Settings) *FileNames { return &s.Discover.FileNames }, []value[FileNames]{
				{FileNamesExact, "SKILL.md"},
				{FileNamesLower, "SKILL.md or, if it is missing, skill.md"},
				{FileNamesHarness, "SKILL.md; in a harness, also HARNESS.md and the group summaries"},
			}),
		choice("symlinks", "How symbolic links are handled. A link that points outside the roots (or, for a root in a project, outside the project) is never followed.",
			func(s *Settings) *Symlinks { return &s.Discover.Symlinks }, []value[Symlinks]{
				{SymlinksIgnore, "links are not followed"},
				{SymlinksInBounds, "links that point inside these bounds are resolved once, and their targets are opened"},
			}),
		choice("reload", "When the list of skills is rebuilt.",
			func(s *Settings) *Reload { return &s.Discover.Reload }, []value[Reload]{
				{ReloadSnapshot, "never; the list is built once, at the start"},
				{ReloadAuto, "same as per_turn in a conversation, and same as snapshot in a batch run"},
				{ReloadPerTurn, "before each turn"},
				{ReloadTagged, "when the store changes; same as per_turn until the store is implemented"},
				{ReloadWatch, "when a file changes; same as per_turn until file watching is implemented"},
				{ReloadPerCall, "each time the skills are requested (in a run, once per turn)"},
			}),
		choice("resource_index", "When a skill's files are indexed and hashed.",
			func(s *Settings) *ResourceIndex { return &s.Discover.ResourceIndex }, []value[ResourceIndex]{
				{ResourceIndexStart, "when the list of skills is built"},
				{ResourceIndexActivation, "when the skill is first used"},
			}),
		adding(choice("state_store", "Where the list of disabled skills is stored. Skills that the operator denied stay denied.",
			func(s *Settings) *StateStore { return &s.Discover.StateStore }, []value[StateStore]{
				{StateStoreProject, "in the workspace's .metier/skills.json, which can only disable skills; user_file also applies"},
				{StateStoreUser, "in metier's state folder, by skill"},
				{StateStoreKeen, "in ~/.keen/skills/config.json, by name"},
				{StateStoreNone, "nowhere"},
			})),
		number("max_depth", "Maximum depth to which roots are scanned.",
			func(s *Settings) *int { return &s.Discover.MaxDepth }, 1, 64),
		number("max_dirs", "Maximum number of folders opened in one scan of a root.",
			func(s *Settings) *int { return &s.Discover.MaxDirs }, 1, 10000000),
		number("max_resources", "Maximum number of files indexed per skill.",
			func(s *Settings) *int { return &s.Discover.MaxResources }, 1, 1000000),
	}
}

func parseRows() []Row {
	return []Row{
		choice("validation", "How strictly SKILL.md is checked on load.",
			func(s *Settings) *Validation { return &s.Parse.Validation }, []value[Validation]{
				{ValidationStrict, "a skill with an error, or with frontmatter that needs repair, is rejected"},
				{ValidationLenient, "the skill is loaded with warnings"},
				{ValidationMinimal, "only name and description are checked"},
			}),
		choice("name_charset", "Which characters a name may contain.",
			func(s *Settings) *NameCharset { return &s.Parse.NameCharset }, []value[NameCharset]{
				{NameCharsetASCII, "lowercase ASCII letters, digits, and hyphens"},
				{NameCharsetUnicode, "lowercase letters from any script, digits, and hyphens"},
				{NameCharsetAny, "any characters on one line"},
			}),
		choice("missing_name", "How a skill without a name is handled.",
			func(s *Settings) *MissingName { return &s.Parse.MissingName }, []value[MissingName]{
				{MissingNameReject, "it is refused"},
				{MissingNameFolder, "the name of its folder is used"},
			}),
		choice("missing_description", "How a skill without a description is handled.",
			func(s *Settings) *MissingDescription { return &s.Parse.MissingDescription }, []value[MissingDescription]{
				{MissingDescriptionReject, "it is refused"},
				{MissingDescriptionSkip, "it is skipped, with a diagnostic"},
				{MissingDescriptionFolder, "the name of its folder is used"},
				{MissingDescriptionParagraph, "the first paragraph of the body is used; a skill whose body has no paragraph is skipped"},
			}),
		choice("no_frontmatter", "How a SKILL.md without frontmatter is handled.",
			func(s *Settings) *NoFrontmatter { return &s.Parse.NoFrontmatter }, []value[NoFrontmatter]{
				{NoFrontmatterReject, "it is refused"},
				{NoFrontmatterFollow, "the rules for a missing name and a missing description apply"},
				{NoFrontmatterPlain, "it is loaded as a plain Markdown skill, named after its folder"},
			}),
		choice("unknown_fields", "How frontmatter fields that are not in the specification are handled.",
			func(s *Settings) *UnknownFields { return &s.Parse.UnknownFields }, []value[UnknownFields]{
				{UnknownFieldsReject, "they are errors"},
				{UnknownFieldsIgnore, "they are dropped"},
				{UnknownFieldsKeep, "they are kept and shown, but have no effect"},
			}),
		choice("known_extensions", "Nonstandard fields that unknown_fields=reject accepts. A field that hides a skill always has an effect.",
			func(s *Settings) *KnownExtensions { return &s.Parse.KnownExtensions }, []value[KnownExtensions]{
				{KnownExtensionsNone, "none"},
				{KnownExtensionsClaude, "Claude Code's fields, such as disable-model-invocation"},
			}),
		choice("yaml_report", "How invalid YAML in the frontmatter is reported. A skill with invalid YAML is never loaded.",
			func(s *Settings) *YAMLReport { return &s.Parse.YAMLReport }, []value[YAMLReport]{
				{YAMLReportUser, "one sentence that names the skill"},
				{YAMLReportDiagnostic, "the cause, with line and column"},
				{YAMLReportBoth, "the sentence, then the cause"},
			}),
		number("compatibility_max", "Maximum number of characters in the compatibility field.",
			func(s *Settings) *int { return &s.Parse.CompatibilityMax }, 1, 100000),
		choice("platform_filter", "How a skill that is only for other operating systems is handled.",
			func(s *Settings) *PlatformFilter { return &s.Parse.PlatformFilter }, []value[PlatformFilter]{
				{PlatformFilterRefuse, "it is refused"},
				{PlatformFilterHide, "it is not shown to the model; it can still be loaded by name"},
				{PlatformFilterOff, "it is loaded"},
			}),
	}
}

func namesRows() []Row {
	return []Row{
		fixed(choice("identity", "How a skill's name is chosen.",
			func(s *Settings) *Identity { return &s.Names.Identity }, []value[Identity]{
				{IdentityEqual, "the frontmatter name, which must equal the folder name"},
				{IdentityPath, "the skill's path relative to its root"},
				{IdentityName, "the frontmatter name"},
				{IdentityFolder, "the folder's name"},
			})),
		fixed(choice("match", "How a requested name is compared with skill names.",
			func(s *Settings) *Match { return &s.Names.Match }, []value[Match]{
				{MatchExact, "byte by byte"},
				{MatchNFKC, "after Unicode normalization form KC"},
				{MatchCasefold, "trimmed, normalized, and case-folded"},
			})),
		order("precedence", "Which of several skills with the same name is used, highest precedence first. Skills that match no entry come last, in the order of the roots.",
			func(s *Settings) *[]string { return &s.Names.Precedence }, kinds),
		fixed(choice("protect_names", "Whether the names of skills in a higher tier are protected from skills in a lower tier.",
			func(s *Settings) *Protect { return &s.Names.Protect }, []value[Protect]{
				{ProtectYes, "names are protected, regardless of precedence"},
				{ProtectNo, "names are not protected; only precedence matters"},
			})),
	}
}

func catalogRows() []Row {
	return []Row{
		choice("catalog_format", "Format of the catalog that the model sees.",
			func(s *Settings) *CatalogFormat { return &s.Catalog.Format }, []value[CatalogFormat]{
				{CatalogFormatNone, "no catalog"},
				{CatalogFormatMarkdown, "a Markdown list"},
				{CatalogFormatJSON, "a JSON object"},
				{CatalogFormatXML, "an available_skills element"},
				{CatalogFormatPaths, "a Markdown list with the path of each SKILL.md"},
			}),
		choice("catalog_place", "Where the catalog is shown.",
			func(s *Settings) *CatalogPlace { return &s.Catalog.Place }, []value[CatalogPlace]{
				{CatalogPlaceNone, "nowhere"},
				{CatalogPlaceTool, "in the load tool's description"},
				{CatalogPlaceSystem, "in the system prompt"},
			}),
		free(choice("empty_catalog", "What the model sees if there are no skills.",
			func(s *Settings) *EmptyCatalog { return &s.Catalog.Empty }, []value[EmptyCatalog]{
				{EmptyCatalogSilent, "nothing"},
				{EmptyCatalogSayNone, "one sentence that says so"},
			})),
		budgeted("catalog_max", "Maximum number of skills in the catalog; 0: as many as catalog_budget allows. The catalog states how many skills it omits.",
			func(s *Settings) *int { return &s.Catalog.Max }, 100000),
		budgeted("catalog_desc_max", "Maximum number of characters per description in the catalog. The value 0, and any value above the specification's limit of 1,024, means 1,024.",
			func(s *Settings) *int { return &s.Catalog.DescMax }, 100000),
		budgeted("catalog_budget", "Maximum number of tokens in the catalog, as estimated by metier; 0: no limit. A catalog that does not fit is shortened: "+
			"first, descriptions are truncated to the same length; then only names are shown; finally, only as many names as fit. The model can find the rest with the search tool. "+
			"The default is 2% of a 200,000-token context window. For Markdown and XML catalogs of real skills, the estimate was 1.1 to 1.4 times the count from "+
			"two providers' tokenizers, and up to 1.7 times for JSON catalogs.",
			func(s *Settings) *int { return &s.Catalog.Budget }, 1000000),
		fixed(choice("paths", "Which skill paths the model sees.",
			func(s *Settings) *Paths { return &s.Catalog.Paths }, []value[Paths]{
				{PathsNone, "no paths; skills are listed by skillId, and calls use the skillId instead of the name"},
				{PathsSkill, "relative to the skill or harness"},
				{PathsRepo, "relative to the repository"},
				{PathsSandbox, "/skills/NAME/..."},
				{PathsAuto, "same as sandbox; no host path is needed, because file tools map the paths shown to the model"},
				{PathsHost, "host paths"},
			})),
	}
}
