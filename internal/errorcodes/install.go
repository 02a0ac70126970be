package errorcodes

var installed = []Code{
	{"source_invalid", "invalid", "The text does not name a source of skills.", "Use a path, OWNER/REPO, or an address."},
	{"source_password", "invalid", "The address of a source contains a password, which would be stored in the lock.", "Remove it from the address, and use a credential helper."},
	{"source_unreadable", "invalid", "The source exists, but you cannot read it.", "Check its permissions."},
	{"source_unsupported", "unsupported", "Skills cannot be installed from this kind of source.", "Download the skills, and install them from a folder."},
	{"source_without_skills", "not_found", "The source contains no skill.", "Specify a folder that contains a SKILL.md, or contains folders that do."},
	{"install_not_allowed", "denied", "The install setting does not allow this kind of source.", "Use another profile, or change the setting."},
	{"skills_not_chosen", "invalid", "The source contains several skills, and none was chosen.", "Choose some, or all."},
	{"skill_ambiguous", "invalid", "Two skills of the source have the same name.", "Use the path of the folder of one of them."},
	{"skill_rejected", "invalid", "The skill would not load, so it is not installed.", "Fix the problem in the message."},
	{"skill_name_invalid", "invalid", "The name of the skill cannot be the name of a folder.", "Change the name in SKILL.md."},
	{"skill_file_refused", "invalid", "A file of the skill cannot be installed, for example because it is a link that leads out of the skill.", "Remove the file, or replace a link by its target."},
	{"skill_exists", "conflict", "A file or folder that metier did not install has the name of the skill.", "Remove it, or force the installation."},
	{"skill_modified", "conflict", "An installed skill was changed, so that it is not the skill in the lock any more.", "Keep the changes under another name, or discard them."},
	{"skill_of_other_source", "conflict", "A skill with this name was installed from another source.", "Remove it first, or force the installation."},
	{"skill_installed", "invalid", "The skill is already in the lock.", "Omit it."},
	{"skill_not_installed", "not_found", "The lock does not contain the skill.", "Use a name that 'metier verify' shows."},
	{"agent_unknown", "invalid", "There is no agent with this name, or it has no such folder.", "Use a name in the message."},
	{"agent_folder_outside", "denied", "The skills folder of an agent is a link that leads out of the project.", "Remove the link."},
	{"lock_invalid", "invalid", "The lock of the installed skills is damaged, or was written by a newer version.", "Restore the file from version control."},
	{"install_journal_damaged", "invalid", "The file that describes an interrupted change cannot be used.", "Remove the file, and verify the installed skills."},
}
