// Package filetool holds the file tools a model sees: read_file, list_files,
// search_files, write_file and edit_file, all over one [Workspace].
//
// Every path goes through the workspace: the model's path is mapped to a host
// path, that path is resolved, and the resolved path is judged; it is opened
// beneath a folder handle with no symlink followed, so the path that was judged
// is the path that is opened. There is no check on spelling alone.
//
// Reads of skill folders go through the call (ToolContext.Read, ToolContext.Activate),
// which applies the settings of reads and records them. Writes state what was
// there and what will be (Facts.Intent), so that after a crash an act that
// happened can be told from one that did not.
package filetool
