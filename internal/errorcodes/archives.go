package errorcodes

var archives = []Code{
	{"archive_unknown_format", "invalid", "The file is not a zip, tar, or gzip file, or the format to write is unknown.", "Use .zip, .skill, .tar.gz, or .tar."},
	{"archive_damaged", "invalid", "The archive is truncated or malformed, or a checksum in it is wrong.", "Get or create it again."},
	{"archive_ambiguous", "invalid", "Readers would find different files in the archive, or it has data that belongs to no file.", "Create it again with another program."},
	{"archive_unsupported", "unsupported", "The archive is encrypted, zip64, or in parts, or uses an unknown compression method or extension.", "Create it again without these features."},
	{"archive_name_invalid", "invalid", "A path in the archive leads outside its folder, or cannot be used on every system.", "Rename the file and create the archive again."},
	{"archive_duplicate", "invalid", "Two paths in the archive are the same, or differ only in case or Unicode form.", "Remove or rename one of them."},
	{"archive_kind_invalid", "invalid", "The archive has an entry that is neither a file nor a folder, such as a link or a device.", "Replace the entry with a file, or leave it out."},
	{"archive_mode_invalid", "invalid", "A file in the archive is setuid, setgid, or sticky, or has file capabilities.", "Remove these permissions and create the archive again."},
	{"archive_too_large", "limit", "The archive exceeds a limit on sizes, the number of files, paths, or the compression ratio.", "Pack fewer or smaller files."},
	{"archive_empty", "invalid", "The archive contains no files, or only files that macOS added.", "Add files."},
	{"archive_io", "unavailable", "The archive could not be read, or a file could not be read or written.", "Read the message."},
}
