# A server over standard input and output: look reads, send acts and says so.
while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) out='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}' ;;
    *'"method":"tools/list"'*) out='{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}},{"name":"send","description":"Sends.","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*'"name":"look"'* | *'"name":"look"'*'"method":"tools/call"'*) out='{"content":[{"type":"text","text":"The desk is empty."}]}' ;;
    *'"method":"tools/call"'*) echo sent >>"$SENT"; out='{"content":[{"type":"text","text":"The letter is sent."}]}' ;;
    *) out='{}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$out"
done
