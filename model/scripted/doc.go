// Package scripted replays turns from a file as a model.Model, for tests and for the quickstart,
// which works without a network. It is not a real model, and its callers disclose that. The output
// of a turn is computed from the actual conversation, so a replay that reads a real file reports
// its actual content.
//
// The file is YAML:
//
//	model: demo              # name in done chunks; default "scripted"
//	turns:
//	  - say: I read the orders first.
//	    calls:
//	      - tool: read_file
//	        args: {path: /workspace/orders.csv}
//	  - say: |
//	      {{ range csv (result "read_file" 1) | groupBy "region" -}}
//	      {{ .Key }}: {{ .Rows | col "amount" | sum | money }}
//	      {{ end }}
//
// # Turns
//
// Each model call takes the next turn. The fields of a turn, all optional:
//
//	say         the text
//	calls       tool calls: tool, args (any YAML; an object) or raw (the arguments' text as it is, JSON or not)
//	when        a template that gives true or false; a turn where it gives false is passed over
//	repeat      how many calls in a row take this turn; when is asked each time; default 1
//	stop        end, tools, length, refusal, stop_sequence or other; default tools with calls, else end
//	usage       {input, output}: tokens; default a quarter of the bytes
//	error       a code such as model_overloaded: the call fails with it, and the retry takes the next turn
//	message     the error's message
//	retry_after the error's wish, such as 2s
//
// After the last turn, a call fails with script_ended. The position in the script is kept in the
// messages themselves, as opaque data on their first part. A resumed run therefore continues where
// it stopped, and one Model serves any number of conversations at once. In a conversation with no
// position, the assistant messages are counted.
//
// # Templates
//
// say, when and every string in args are Go text/template. To pass an argument that is not a
// string, write {$json: "{{ … }}"}. Rows are maps from column to text, so {{ .amount }} is a cell.
// An unknown column is an error, and so is output over 256 KiB. The functions take the value they
// work on last, so that they can be piped:
//
//	prompt                     the last text of the user
//	given                      all texts of the user, with the skills that were loaded before the task
//	system                     the system prompt
//	offered TOOL               whether the tool is offered
//	result TOOL N              text of the tool's Nth result, from 1; -1 is its last
//	results TOOL               all of them
//	failed TOOL N              whether that result was an error
//	lines TEXT                 lines without their ends
//	split SEP TEXT             the parts between separators
//	trim TEXT                  the text without white space around it
//	contains SUB TEXT          whether the text has that part
//	match RE TEXT              the first group, or the whole match, or ""
//	matches RE TEXT            all of them
//	csv TEXT                   rows by the header line
//	col NAME ROWS              one column
//	groupBy NAME ROWS          groups with .Key and .Rows, in order of appearance
//	rankBy NAME GROUPS         groups by the sum of a column, largest first
//	sortBy NAME [desc] ROWS    by number where both are, else by text
//	count LIST                 its length
//	sum LIST, avg LIST         of numbers
//	add A B                    their sum
//	num X, money X             a number as 3.5 and as 1,234.50
//	json VALUE                 the value as JSON
package scripted
