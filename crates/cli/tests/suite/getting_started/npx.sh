#!/bin/sh
# In the place of npx: the server that the tests name, or one of the same name whose work goes on whatever it is told.
# Whatever works keeps the pipe $WORK open.
exec 9>"$WORK"
[ -z "$EVERYTHING" ] || exec $EVERYTHING

works() {
    n=0
    while n=$((n + 1)); do
        echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":'$n',"total":120}}'
        sleep 0.5
    done
}

while read -r line; do
    case $line in
    *'"initialize"'*)
        echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mcp-servers/everything","version":"2.0.0"}}}'
        ;;
    *'"tools/call"'*) works & ;;
    esac
done
kill $! 2>/dev/null
