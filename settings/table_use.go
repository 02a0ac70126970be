package settings

func activateRows() []Row {
	return []Row{
		set("activation", "How a skill may become active.", "none",
			func(s *Settings) *Set[Way] { return &s.Activate.Ways }, []value[Way]{
				{WayPreload, "named when the run starts; what the operator names is loaded in any case"},
				{WayLoadTool, "the model calls the load tool"},
				{WayReadFile, "the model reads a whole local SKILL.md"},
				{WaySlash, "the task that a person gives begins with /NAME"},
				{WaySessionStart, "with the session, unasked: the HARNESS.md of a harness that was found; one that is named is loaded in any case"},
			}),
		choice("content", "The text that an activation delivers.",
			func(s *Settings) *Content { return &s.Activate.Content }, []value[Content]{
				{ContentBody, "without the frontmatter"},
				{ContentMeta, "the body after the fields that matter to the reader"},
				{ContentRaw, "the file as it is"},
			}),
		choice("inject_role", "The role in which an activation enters the conversation. It never counts as a command of the user.",
			func(s *Settings) *InjectRole { return &s.Activate.Role }, []value[InjectRole]{
				{InjectRoleContext, "context, never a command"},
				{InjectRoleToolResult, "the result of the call; what no call loaded, as context"},
				{InjectRoleUser, "a user message that policy still sees as context; what typed input loads, once there is a chat"},
				{InjectRoleSystem, "the system prompt"},
			}),
		choice("args", "How the arguments of a typed skill are put into its text.",
			func(s *Settings) *Args { return &s.Activate.Args }, []value[Args]{
				{ArgsNone, "not at all"},
				{ArgsKeenRFC, "$ARGUMENTS, $ARGUMENTS[N] and $0 to $9, counted from 0; an Arguments line"},
				{ArgsClaude, "as keen_rfc; without a placeholder the arguments follow the text"},
			}),
		choice("drift_batch", "What a batch run does when it is resumed and an active skill has changed.",
			func(s *Settings) *DriftBatch { return &s.Activate.DriftBatch }, []value[DriftBatch]{
				{DriftBatchFail, "it ends"},
				{DriftBatchWarn, "it keeps the frozen text and says so"},
				{DriftBatchReload, "it takes the new text and says so"},
				{DriftBatchIgnore, "it keeps the frozen text; only the record says so"},
			}),
		choice("drift_interactive", "What a conversation does when it is resumed and an active skill has changed.",
			func(s *Settings) *DriftInteractive { return &s.Activate.DriftInteractive }, []value[DriftInteractive]{
				{DriftInteractiveFail, "it ends"},
				{DriftInteractiveWarn, "it keeps the frozen text and says so"},
				{DriftInteractiveReload, "it takes the new text and says so"},
				{DriftInteractiveIgnore, "it keeps the frozen text; only the record says so"},
			}),
		choice("injection", "What becomes of skill text that looks like an injection.",
			func(s *Settings) *Injection { return &s.Activate.Injection }, []value[Injection]{
				{InjectionBlock, "not delivered"},
				{InjectionUntrusted, "not delivered when its tier is third_party; else an event"},
				{InjectionEvent, "delivered, with an event"},
			}),
		number("resource_list", "Resources listed beside the instructions; 0: none.",
			func(s *Settings) *int { return &s.Activate.ResourceList }, 0, 1000000),
		free(choice("show_digest", "Whether the model sees digests of skills and resources. Records always hold them.",
			func(s *Settings) *ShowDigest { return &s.Activate.ShowDigest }, []value[ShowDigest]{
				{ShowDigestNo, "no"},
				{ShowDigestYes, "yes"},
			})),
	}
}

func readRows() []Row {
	return []Row{
		choice("resource_scope", "Which files of a skill may be read.",
			func(s *Settings) *ResourceScope { return &s.Read.Scope }, []value[ResourceScope]{
				{ResourceScopeOneLevel, "files of the folder and of its direct subfolders"},
				{ResourceScopeIndexed, "files of the index"},
				{ResourceScopeFolder, "any file of the folder"},
			}),
		choice("late_files", "What becomes of a file that came after the index was made.",
			func(s *Settings) *LateFiles { return &s.Read.Late }, []value[LateFiles]{
				{LateFilesRefuse, "it is refused"},
				{LateFilesMark, "it is read and marked as late"},
			}),
		choice("index_root_file", "Whether SKILL.md itself is a resource.",
			func(s *Settings) *IndexRootFile { return &s.Read.IndexRoot }, []value[IndexRootFile]{
				{IndexRootFileNo, "no"},
				{IndexRootFileYes, "yes"},
			}),
		choice("binary", "How a binary file is read.",
			func(s *Settings) *Binary { return &s.Read.Binary }, []value[Binary]{
				{BinaryRefuse, "with an error"},
				{BinaryMetadata, "kind, size and digest, no content"},
				{BinaryBase64, "as base64"},
				{BinaryRaw, "its bytes; where only text fits, base64"},
			}),
		number("read_max", "Bytes that one read of a resource may ask for.",
			func(s *Settings) *int { return &s.Read.Max }, 1, 100000000),
		number("read_default", "Bytes of a read that asks for no number. Lowered to read_max where that is less.",
			func(s *Settings) *int { return &s.Read.Default }, 1, 100000000),
		choice("read_over", "What becomes of a file that is longer than its read may be.",
			func(s *Settings) *ReadOver { return &s.Read.Over }, []value[ReadOver]{
				{ReadOverRefuse, "it is refused"},
				{ReadOverTruncate, "the first bytes are read and the cut is reported"},
			}),
	}
}

func toolsRows() []Row {
	return []Row{
		toolName("tool_load", "The name of the tool that loads a skill.",
			func(s *Settings) *string { return &s.Tools.Load }),
		toolName("tool_resource", "The name of the tool that reads a resource.",
			func(s *Settings) *string { return &s.Tools.Resource }),
		toolName("tool_script", "The name of the tool that runs a script. It is offered only when it is allowed by name.",
			func(s *Settings) *string { return &s.Tools.Script }),
		toolName("tool_list", "The name of the tool that lists skills. It is offered where the catalog leaves something out.",
			func(s *Settings) *string { return &s.Tools.List }),
		toolName("tool_search", "The name of the tool that searches skills. It is offered where the catalog leaves something out.",
			func(s *Settings) *string { return &s.Tools.Search }),
		free(choice("tool_reply", "The form of what the skill tools answer.",
			func(s *Settings) *Reply { return &s.Tools.Reply }, []value[Reply]{
				{ReplyText, "text for the model"},
				{ReplyPlain, "the text itself, without an element around it"},
				{ReplyEnvelope, "a JSON object with ok, and the data or the error"},
			})),
		names("default_tools", "The tools of a run to which none is allowed by name. A tool whose name is none is not offered.",
			func(s *Settings) *[]string { return &s.Tools.Default }, defaultable),
		choice("if_match", "Whether write_file and edit_file need the digest last read.",
			func(s *Settings) *IfMatch { return &s.Tools.IfMatch }, []value[IfMatch]{
				{IfMatchYes, "a call without it, or with a stale one, is refused"},
				{IfMatchNo, "it is checked when given"},
			}),
	}
}
