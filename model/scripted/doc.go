// Package scripted replays turns from a file as a model.Model, for tests and for the quickstart without a network. It is not a
// model and its users say so; but what a turn writes is computed from the real conversation, so a replay that reads a real file
// reports what the file really holds.
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
// Past the last turn a call fails with script_ended. The place in the script is kept in the messages themselves (as opaque data on
// their first part), so a resumed run goes on where it was, and one Model serves any number of conversations at once. A conversation
// that shows no place but has assistant messages counts those.
//
// # Templates
//
// say, when and every string in args are Go text/template. A string argument that must not be a string is written {$json: "{{ … }}"}.
// Rows are maps from column to text, so {{ .amount }} is a cell, and a column that does not exist is an error. Output over
// 256 KiB is an error too. Functions, the value they work on last, so they can be piped:
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
