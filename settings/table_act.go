package settings

func execRows() []Row {
	return []Row{
		choice("scripts", "Which skill scripts may run.",
			func(s *Settings) *Scripts { return &s.Exec.Scripts }, []value[Scripts]{
				{ScriptsOff, "none"},
				{ScriptsExact, "scripts that the operator allowed by name"},
				{ScriptsTiered, "scripts of active skills, depending on the skill's tier"},
				{ScriptsBundled, "any script of a known skill"},
			}),
		choice("script_approval", "Which scripts need approval.",
			func(s *Settings) *Approval { return &s.Exec.Approval }, []value[Approval]{
				{ApprovalAlways, "every script"},
				{ApprovalByTier, "scripts of skills in the project, user, and third_party tiers"},
				{ApprovalNever, "none"},
			}),
		whole(set("script_runtimes", "Interpreters that may run a script.", "none",
			func(s *Settings) *Set[Runtime] { return &s.Exec.Runtimes }, []value[Runtime]{
				{RuntimeBash, "bash"},
				{RuntimeSh, "sh"},
				{RuntimeDeno, "deno run"},
				{RuntimePython, "python3"},
				{RuntimeNode, "node"},
				{RuntimeRuby, "ruby"},
				{RuntimePerl, "perl"},
				{RuntimeGo, "go run"},
				{RuntimeRust, "rust-script"},
				{RuntimePwsh, "pwsh"},
				{RuntimeExecutable, "any executable named in the script's shebang"},
			})),
		fixed(choice("script_stage", "How a script's code reaches the sandbox.",
			func(s *Settings) *Stage { return &s.Exec.Stage }, []value[Stage]{
				{StageStdin, "as one file on standard input, without the skill's other files"},
				{StageTree, "as an immutable copy of the skill's verified files"},
			})),
		fixed(choice("script_cwd", "The working directory of a script.",
			func(s *Settings) *Cwd { return &s.Exec.Cwd }, []value[Cwd]{
				{CwdSkill, "the skill's folder"},
				{CwdWorkspace, "the workspace's root, or the folder in it that the call specifies"},
				{CwdCall, "the folder in the workspace or in the skill that the call specifies"},
			})),
		choice("script_network", "Which hosts scripts and web_fetch may reach. All requests go through metier's proxy.",
			func(s *Settings) *Network { return &s.Exec.Network }, []value[Network]{
				{NetworkOff, "none"},
				{NetworkTiered, "granted hosts; other hosts need approval, and are refused for third_party skills"},
				{NetworkOn, "any public host"},
			}),
		fixed(choice("host_cdp", "Whether a call to a browser script on the host must pass --cdp with its session's endpoint.",
			func(s *Settings) *HostCDP { return &s.Exec.HostCDP }, []value[HostCDP]{
				{HostCDPForbid, "it must not pass --cdp"},
				{HostCDPRequire, "it must pass --cdp"},
			})),
		choice("missing_dependency", "How a script with a missing dependency is handled. Dependencies are never installed.",
			func(s *Settings) *MissingDependency { return &s.Exec.MissingDependency }, []value[MissingDependency]{
				{MissingDependencyReject, "it does not run"},
				{MissingDependencyWarn, "it runs with a warning"},
			}),
		choice("script_target", "Where scripts run. A script runs on the host only if a subagent's profile lists it by its exact name and allows host execution. A run with script_target=host is refused.",
			func(s *Settings) *Target { return &s.Exec.Target }, []value[Target]{
				{TargetSandbox, "in the sandbox"},
				{TargetHost, "on the host"},
			}),
	}
}

func policyRows() []Row {
	return []Row{
		preapproving(choice("allowed_tools", "Effect of a skill's allowed-tools field. The field never grants permissions.",
			func(s *Settings) *AllowedTools { return &s.Policy.AllowedTools }, []value[AllowedTools]{
				{AllowedToolsEnforce, "same as narrow"},
				{AllowedToolsNarrow, "calls that are not covered by the active skills' lists are denied"},
				{AllowedToolsAdvise, "calls that are not covered by the lists are allowed and reported"},
				{AllowedToolsIgnore, "no effect"},
				{AllowedToolsPreapprove, "same as enforce; a listed call that the operator also allows needs no approval, unless the skill is third_party"},
			})),
		choice("allowed_tools_merge", "How the allowed-tools lists of several active skills combine.",
			func(s *Settings) *Merge { return &s.Policy.Merge }, []value[Merge]{
				{MergeIntersection, "a call must satisfy every list"},
				{MergeLast, "only the list of the most recently activated skill applies"},
				{MergeUnion, "a call must satisfy at least one list"},
			}),
		choice("enforcement_mode", "Which calls require a direct command from the user.",
			func(s *Settings) *Mode { return &s.Policy.Mode }, []value[Mode]{
				{ModeStrict, "every call requires a direct command, including reads"},
				{ModeExplicit, "writes and side effects require a direct command"},
				{ModeObserve, "same as enforce-explicit, but a missing command only causes a warning"},
				{ModeDisabled, "prompt slots are not checked; grants and tiers still apply"},
			}),
		choice("prompt_slot_role", "The role of input that a user types (a prompt slot).",
			func(s *Settings) *SlotRole { return &s.Policy.SlotRole }, []value[SlotRole]{
				{SlotRoleQuote, "a quotation"},
				{SlotRoleContext, "context"},
				{SlotRoleDirect, "a direct command"},
			}),
		choice("guard_allow", "Skill folders outside the workspace that file tools may read without approval.",
			func(s *Settings) *GuardAllow { return &s.Policy.GuardAllow }, []value[GuardAllow]{
				{GuardAllowNone, "none"},
				{GuardAllowSkillDirs, "the folders of known skills"},
				{GuardAllowRoots, "the discovered roots"},
			}),
	}
}

func harnessRows() []Row {
	return []Row{
		fixed(choice("harness_layout", "The layout of a harness folder.",
			func(s *Settings) *Layout { return &s.Harness.Layout }, []value[Layout]{
				{LayoutV1, "the folders skills and references, with SKILLS.md and REFERENCES.md"},
				{LayoutV2, "any folders, with leaf files and leaf detectors"},
				{LayoutAuto, "v2 if the folder looks like v2, otherwise v1"},
			})),
		fixed(choice("group_summary", "How a group without a summary file is reported.",
			func(s *Settings) *GroupSummary { return &s.Harness.GroupSummary }, []value[GroupSummary]{
				{GroupSummaryError, "as an error"},
				{GroupSummaryWarn, "as a warning"},
			})),
	}
}

func agentRows() []Row {
	return []Row{
		fixed(choice("inherit", "Which of the parent's active skills a subagent starts with.",
			func(s *Settings) *Inherit { return &s.Agent.Inherit }, []value[Inherit]{
				{InheritNone, "none, even if the call lists some"},
				{InheritListed, "those listed in the subagent's profile or in the call"},
				{InheritAll, "all of them"},
			})),
	}
}

func chatRows() []Row {
	return []Row{
		choice("unknown_slash", "How a typed /NAME is handled if no skill that users can call has that name.",
			func(s *Settings) *UnknownSlash { return &s.Chat.UnknownSlash }, []value[UnknownSlash]{
				{UnknownSlashError, "an error that lists the available skills"},
				{UnknownSlashNotice, "a notice; nothing is sent to the model, and a run ends in the same way as with the value error"},
				{UnknownSlashPass, "it is sent to the model as text"},
			}),
	}
}

func installRows() []Row {
	return []Row{
		set("install", "Where skills may be installed from.", "off",
			func(s *Settings) *Set[InstallFrom] { return &s.Install.Allowed }, []value[InstallFrom]{
				{InstallFromLocal, "a local folder"},
				{InstallFromZip, "an archive"},
				{InstallFromRegistry, "a registry, with pinned versions"},
			}),
		choice("install_sources", "From which places on other machines skills may be installed.",
			func(s *Settings) *InstallSources { return &s.Install.Sources }, []value[InstallSources]{
				{InstallSourcesListed, "only sources that a policy file lists"},
				{InstallSourcesAny, "all sources"},
			}),
		choice("install_signature", "Whether a skill must be signed to be installed.",
			func(s *Settings) *InstallSignature { return &s.Install.Signature }, []value[InstallSignature]{
				{InstallSignatureRequired, "by a signer that a policy file names, unless a policy file approves the skill"},
				{InstallSignatureOptional, "a bad signature and a changed signer still prevent the installation"},
			}),
		choice("install_root", "The skills folder of a project or a home in which skills are installed.",
			func(s *Settings) *InstallRoot { return &s.Install.Root }, []value[InstallRoot]{
				{InstallRootAgents, ".agents/skills"},
				{InstallRootKeepUp, ".keep-up/skills"},
			}),
		choice("archive_layout", "The required layout of an archive.",
			func(s *Settings) *ArchiveLayout { return &s.Install.ArchiveLayout }, []value[ArchiveLayout]{
				{ArchiveLayoutWrapper, "one folder that contains SKILL.md"},
				{ArchiveLayoutEither, "one folder, or SKILL.md at the top"},
			}),
		choice("install_validation", "How strictly SKILL.md is checked before it is installed.",
			func(s *Settings) *InstallValidation { return &s.Install.Validation }, []value[InstallValidation]{
				{InstallValidationStrict, "an error prevents the installation"},
				{InstallValidationLenient, "it is installed with warnings"},
				{InstallValidationMinimal, "only name and description are checked"},
			}),
		choice("publish", "Whether skills may be published in a registry, or as an index on the web.",
			func(s *Settings) *Publish { return &s.Install.Publish }, []value[Publish]{
				{PublishNo, "no"},
				{PublishYes, "yes"},
			}),
	}
}
