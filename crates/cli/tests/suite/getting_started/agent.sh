#!/bin/sh
# An ACP agent whose work, which keeps the pipe $WORK open, ends when its prompt is cancelled.
while read -r line; do
    case $line in
    *'"initialize"'*)
        echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"some-agent","version":"1.0"}}}'
        ;;
    *'"session/prompt"'*)
        sleep 600 9>"$WORK" >/dev/null &
        work=$!
        echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"…"}}}}'
        ;;
    *'"session/cancel"'*)
        kill "$work"
        wait "$work"
        echo '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}'
        ;;
    esac
done
