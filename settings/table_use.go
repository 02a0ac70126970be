package settings

func activateRows() []Row {
	return []Row{
		fixed(set("activation", "How a skill can become active.", "none",
			func(s *Settings) *Set[Way] { return &s.Activate.Ways }, []value[Way]{
				{WayPreload, "it is specified at the start of the run; skills that the operator specifies are loaded regardless of this setting"},
				{WayLoadTool, "the model calls the load tool"},
				{WayReadFile, "the model reads an entire local SKILL.md"},
				{WaySlash, "the user's task starts with /NAME"},
				{WaySessionStart, "the HARNESS.md of a discovered harness is loaded at the start of the session; a harness that you specify is loaded regardless of this setting"},
			})),
		choice("content", "Which text the model receives when a skill is loaded.",
			func(s *Settings) *Content { return &s.Activate.Content }, []value[Content]{
				{ContentBody, "the body, without the frontmatter"},
				{ContentMeta, "the frontmatter fields that matter to the model, then the body"},
				{ContentRaw, "the whole file, unchanged"},
			}),
		choice("inject_role", "The role of a loaded skill's text in the conversation. The text is never treated as a user command.",
			func(s *Settings) *InjectRole { return &s.Activate.Role }, []value[InjectRole]{
				{InjectRoleContext, "context, never a command"},
				{InjectRoleToolResult, "the result of the call that loaded the skill; context if no call loaded it"},
				{InjectRoleUser, "a user message that policy still treats as context; intended for skills that users load in interactive chats, which metier does not support yet"},
				{InjectRoleSystem, "the system prompt"},
			}),
		choice("args", "How the arguments after a typed /NAME are inserted into the skill's text.",
			func(s *Settings) *Args { return &s.Activate.Args }, []value[Args]{
				{ArgsNone, "they are not inserted"},
				{ArgsKeenRFC, "in place of $ARGUMENTS, $ARGUMENTS[N], and $0 to $9, counted from 0; the task also lists them on an Arguments line"},
				{ArgsClaude, "same as keen_rfc; if there is no placeholder, the arguments are appended to the text"},
			}),
		only(choice("drift_batch", "What a resumed batch run does if an active skill has changed.",
			func(s *Settings) *Drift { return &s.Activate.DriftBatch }, drifts), string(DriftFail), string(DriftWarn)),
		only(choice("drift_interactive", "What a resumed conversation does if an active skill has changed.",
			func(s *Settings) *Drift { return &s.Activate.DriftInteractive }, drifts), string(DriftFail), string(DriftWarn)),
		choice("injection", "How skill text that looks like a prompt injection is handled.",
			func(s *Settings) *Injection { return &s.Activate.Injection }, []value[Injection]{
				{InjectionBlock, "it is not delivered"},
				{InjectionUntrusted, "it is not delivered if the skill's tier is third_party; otherwise, it is delivered, and an event is recorded"},
				{InjectionEvent, "it is delivered, and an event is recorded"},
			}),
		number("resource_list", "Maximum number of resources listed with the instructions; 0: none.",
			func(s *Settings) *int { return &s.Activate.ResourceList }, 0, 1000000),
		free(choice("show_digest", "Whether the model sees the digests of skills and resources. Records always contain them.",
			func(s *Settings) *ShowDigest { return &s.Activate.ShowDigest }, []value[ShowDigest]{
				{ShowDigestNo, "no"},
				{ShowDigestYes, "yes"},
			})),
	}
}

func readRows() []Row {
	return []Row{
		fixed(choice("resource_scope", "Which of a skill's files may be read.",
			func(s *Settings) *ResourceScope { return &s.Read.Scope }, []value[ResourceScope]{
				{ResourceScopeOneLevel, "files in the skill's folder and in its direct subfolders"},
				{ResourceScopeIndexed, "files in the index"},
				{ResourceScopeFolder, "any file in the skill's folder"},
			})),
		choice("late_files", "How a file that was added after the skill was indexed is handled.",
			func(s *Settings) *LateFiles { return &s.Read.Late }, []value[LateFiles]{
				{LateFilesRefuse, "it is refused"},
				{LateFilesMark, "it is read, with a warning"},
			}),
		fixed(choice("index_root_file", "Whether SKILL.md itself is a resource.",
			func(s *Settings) *IndexRootFile { return &s.Read.IndexRoot }, []value[IndexRootFile]{
				{IndexRootFileNo, "no"},
				{IndexRootFileYes, "yes"},
			})),
		choice("binary", "What a read of a binary file returns.",
			func(s *Settings) *Binary { return &s.Read.Binary }, []value[Binary]{
				{BinaryRefuse, "an error"},
				{BinaryMetadata, "its kind, size, and digest, but not its content"},
				{BinaryBase64, "its content as base64"},
				{BinaryRaw, "its raw bytes, or base64 if only text is possible"},
			}),
		number("read_max", "Maximum number of bytes that a resource read may request.",
			func(s *Settings) *int { return &s.Read.Max }, 1, 100000000),
		number("read_default", "Number of bytes that a read returns if the call does not specify one. It cannot exceed read_max.",
			func(s *Settings) *int { return &s.Read.Default }, 1, 100000000),
		choice("read_over", "How a file that is larger than the read limit is handled.",
			func(s *Settings) *ReadOver { return &s.Read.Over }, []value[ReadOver]{
				{ReadOverRefuse, "it is refused"},
				{ReadOverTruncate, "the first bytes are read, and the truncation is reported"},
			}),
	}
}

func toolsRows() []Row {
	return []Row{
		toolName("tool_load", "Name of the tool that loads a skill.",
			func(s *Settings) *string { return &s.Tools.Load }),
		toolName("tool_resource", "Name of the tool that reads a resource.",
			func(s *Settings) *string { return &s.Tools.Resource }),
		toolName("tool_script", "Name of the tool that runs a script. The tool is offered only if it is allowed by name.",
			func(s *Settings) *string { return &s.Tools.Script }),
		toolName("tool_list", "Name of the tool that lists skills. The tool is offered if the catalog omits skills.",
			func(s *Settings) *string { return &s.Tools.List }),
		toolName("tool_search", "Name of the tool that searches skills. The tool is offered if the catalog omits skills.",
			func(s *Settings) *string { return &s.Tools.Search }),
		fixed(choice("tool_reply", "Format of the skill tools' results.",
			func(s *Settings) *Reply { return &s.Tools.Reply }, []value[Reply]{
				{ReplyText, "text for the model"},
				{ReplyPlain, "only the text, without an enclosing element"},
				{ReplyEnvelope, "a JSON object that contains the key ok and either the data or the error"},
			})),
		names("default_tools", "Tools that a run offers if no tools are allowed by name. A tool whose name is set to none is not offered.",
			func(s *Settings) *[]string { return &s.Tools.Default }, defaultable),
		choice("if_match", "Whether write_file and edit_file require the digest from the last read.",
			func(s *Settings) *IfMatch { return &s.Tools.IfMatch }, []value[IfMatch]{
				{IfMatchYes, "a call without a digest, or with a stale one, is refused"},
				{IfMatchNo, "the digest is checked only if the call includes one"},
			}),
	}
}

var drifts = []value[Drift]{
	{DriftFail, "the run ends"},
	{DriftWarn, "the recorded text is used, and the change is reported"},
	{DriftReload, "the new text is used, and the change is reported"},
	{DriftIgnore, "the recorded text is used until the skill is loaded again, and the change appears only in the record"},
}
