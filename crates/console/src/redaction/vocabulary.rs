//! What protocols define, as far as it is kept: methods, members, the words that some members may have, and texts of ours.
//!
//! Each list is a text of words. What is missing here costs clarity, never a secret: it is replaced.

use std::{collections::HashSet, sync::LazyLock};

/// Words that are kept.
pub(super) type Words = LazyLock<HashSet<&'static str>>;

fn set(list: &'static str) -> HashSet<&'static str> {
    list.split_ascii_whitespace().collect()
}

/// Methods of MCP, ACP, Codex app-server and LSP.
pub(super) static METHODS: Words = Words::new(|| {
    set("
    initialize initialized ping shutdown exit authenticate logout subagent turn task terminal
    completion/complete elicitation/create logging/setLevel prompts/get prompts/list resources/list resources/read
    resources/subscribe resources/templates/list resources/unsubscribe roots/list sampling/createMessage server/discover
    subscriptions/listen tasks/cancel tasks/get tasks/list tasks/result tasks/update tools/call tools/list
    notifications/cancelled notifications/elicitation/complete notifications/initialized notifications/message
    notifications/progress notifications/prompts/list_changed notifications/resources/list_changed
    notifications/resources/updated notifications/roots/list_changed notifications/subscriptions/acknowledged
    notifications/tasks notifications/tasks/status notifications/tools/list_changed
    fs/read_text_file fs/write_text_file session/cancel session/close session/delete session/fork session/list
    session/load session/new session/prompt session/request_permission session/resume session/set_config_option
    session/set_mode session/set_model session/update terminal/cancel terminal/create terminal/kill terminal/output
    terminal/release terminal/wait_for_exit tool_call/cancel
    $/cancelRequest $/cancel_request $/logTrace $/progress $/setTrace
    applyPatchApproval execCommandApproval
    command/exec command/exec/outputDelta command/exec/terminate command/exec/write error
    item/agentMessage/delta item/commandExecution/outputDelta item/commandExecution/requestApproval item/completed
    item/fileChange/requestApproval item/permissions/requestApproval item/started item/tool/call
    item/tool/requestUserInput model/list process/exited process/kill process/spawn review/start serverRequest/resolved
    thread/archive thread/backgroundTerminals/list thread/backgroundTerminals/terminate thread/compact/start thread/fork
    thread/list thread/read thread/resume thread/sample/cancel thread/search/cancel thread/search/stream/cancel
    thread/shellCommand thread/start thread/started thread/status/changed thread/tokenUsage/updated thread/unsubscribe
    turn/completed turn/diff/updated turn/interrupt turn/plan/updated turn/start turn/started turn/steer
    userVerification/cancel
    client/registerCapability client/unregisterCapability telemetry/event window/logMessage window/showDocument
    window/showMessage window/showMessageRequest window/workDoneProgress/cancel window/workDoneProgress/create
    textDocument/codeAction textDocument/codeLens textDocument/completion textDocument/declaration textDocument/definition
    textDocument/diagnostic textDocument/didChange textDocument/didClose textDocument/didOpen textDocument/didSave
    textDocument/documentHighlight textDocument/documentLink textDocument/documentSymbol textDocument/foldingRange
    textDocument/formatting textDocument/hover textDocument/implementation textDocument/inlayHint
    textDocument/prepareRename textDocument/publishDiagnostics textDocument/references textDocument/rename
    textDocument/selectionRange textDocument/semanticTokens/full textDocument/semanticTokens/range
    textDocument/signatureHelp textDocument/typeDefinition textDocument/willSave
    workspace/applyEdit workspace/configuration workspace/diagnostic workspace/didChangeConfiguration
    workspace/didChangeWatchedFiles workspace/didChangeWorkspaceFolders workspace/executeCommand workspace/symbol
    workspace/workspaceFolders
    ")
});

/// Members that name something by an id.
pub(super) static IDS: Words = Words::new(|| {
    set("
    sessionId parentSessionId senderSessionId recipientSessionId threadId reviewThreadId parentThreadId senderThreadId
    agentThreadId receiverThreadIds turnId expectedTurnId itemId callId approvalId taskId terminalId toolCallId toolUseId
    messageId senderMessageId recipientMessageId elicitationId processId processHandle planId compactionId conversationId
    cursor nextCursor serverId
    ")
});

/// Members whose value may be one of [`WORDS`].
pub(super) static WORDY_KEYS: Words = Words::new(|| {
    set("
    type kind status state stopReason sessionUpdate outcome role action level cause clock endedBy taskSupport decision
    resultType
    ")
});

pub(super) static WORDS: Words = Words::new(|| {
    set("
    text image audio resource resource_link tool_use tool_result user assistant accept decline cancel
    debug info notice warning error critical alert emergency
    working input_required completed failed cancelled complete
    running idle requires_action active notLoaded systemError inProgress interrupted
    end_turn max_tokens max_turn_requests refusal endTurn maxTokens stopSequence toolUse selected
    agent_message agent_message_chunk agent_thought agent_thought_chunk available_commands_update compaction_update
    config_option_update current_mode_update plan plan_update session_info_update state_update subagent_update
    terminal_update tool_call tool_call_update tool_call_content_chunk usage_update user_message user_message_chunk
    pending in_progress read edit delete move search execute think fetch switch_mode other
    allow_once allow_always reject_once reject_always content diff terminal subagent
    agentMessage collabAgentToolCall commandExecution fileChange mcpToolCall reasoning subAgentActivity userMessage webSearch
    begin report end required optional forbidden
    caller timeout parent disconnect shutdown operator policy response total client server shim
    asked never_sent not_sendable sent confirmed completed_first answered_after unknown
    ")
});

/// Members whose keys and values are the user's or the server's own.
pub(super) static OPAQUE_KEYS: Words = Words::new(|| {
    set("
    arguments structuredContent rawInput rawOutput env headers inputSchema outputSchema requestedSchema schema metadata
    variables initializationOptions settings
    ")
});

/// Members that protocols define, and what is in them.
pub(super) static KEYS: Words = Words::new(|| {
    set("
    _meta io.modelcontextprotocol/clientCapabilities io.modelcontextprotocol/clientInfo io.modelcontextprotocol/logLevel
    io.modelcontextprotocol/related-task io.modelcontextprotocol/tasks rescind/deadline rescind/http rescind/receipt
    traceparent tracestate baggage
    capabilities clientCapabilities agentCapabilities serverCapabilities promptCapabilities sessionCapabilities
    mcpCapabilities clientInfo serverInfo agentInfo version title instructions experimental extensions tools prompts
    resources resourceTemplates roots sampling elicitation logging completions completion tasks requests listChanged
    subscribe list call create createMessage cancel cancellation request subagents fs terminal readTextFile
    writeTextFile loadSession embeddedContext image audio http sse acp auth mcp mcpServers authMethods experimentalApi
    form url
    content contents text data blob mimeType annotations audience priority lastModified icons resource isError
    description progress total hasMore values value ref argument context task ttl ttlMs pollInterval pollIntervalMs
    createdAt lastUpdatedAt statusMessage inputRequests inputResponses requestState result error logger model modelPreferences
    hints messages systemPrompt maxTokens temperature stopSequences includeContext toolChoice destructiveHint
    idempotentHint openWorldHint readOnlyHint execution uriTemplate size notifications
    prompt update updatedAt background items entries options optionId toolCall locations path line limit cwd
    additionalDirectories command args exitStatus signal truncated output outputByteLimit oldText newText changes
    availableCommands availableModes currentModeId modes mode modeId models modelId configOptions configId currentValue
    usage used cost amount currency inputTokens outputTokens totalTokens thoughtTokens sessions session message
    thread turn item input userAgent codexHome platformFamily platformOs terminated delta diff plan review effort summary
    approvalPolicy sandbox sandboxPolicy ephemeral stdout stderr
    afterMs receipt asked written answer mayHaveRun httpStatus supported requested
    rootPath workspaceFolders workspace textDocument position character range start end languageId contentChanges
    isIncomplete label detail diagnostics severity source percentage cancellable workDoneToken partialResultToken window
    general trace edit
    ")
});

/// Programs that start other programs, whose names are kept.
pub(super) static LAUNCHERS: Words = Words::new(|| {
    set("
    bun bunx deno docker java node npx pnpx podman python python3 rescind ruby sh bash uv uvx
    ")
});

/// Texts of ours and of JSON-RPC, one a line. `#` is a number, with a unit of time where one follows.
const PHRASES: &str = "
Parse error
Invalid Request
Method not found
Invalid params
Internal error
cancelled by the caller
request timed out
the request it served was cancelled
connection ended
shutting down
stopped by operator
stopped by policy
cancelled
Cancelled
Request cancelled
the server cancelled this request
the server gave this request up
cancelled; not confirmed, the work may still be running
the answer could not be read
no answer or progress for # (set by rescind run --timeout)
no answer within # (set by rescind run --total-timeout)
no answer or progress for # (set by rescind serve --timeout)
no answer within # (set by rescind serve --total-timeout)
too many requests in flight; the limit is # (see rescind run --max-in-flight)
too many requests in flight; the limit is # (see rescind serve --max-in-flight)
answer too large: the message has # bytes; the limit is # (see rescind run --max-message)
answer too large: the message has # bytes; the limit is # (see rescind serve --max-message)
";

/// Whether this is a text of ours.
pub(super) fn is_phrase(text: &str) -> bool {
    PHRASES.lines().any(|phrase| !phrase.is_empty() && matches(phrase, text))
}

fn matches(phrase: &str, mut text: &str) -> bool {
    let mut parts = phrase.split('#');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    text = rest;
    for part in parts {
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if digits.len() == text.len() {
            return false;
        }
        let unit = ["ns", "µs", "ms", "s"].into_iter().find_map(|unit| digits.strip_prefix(unit)?.strip_prefix(part));
        match unit.or_else(|| digits.strip_prefix(part)) {
            Some(rest) => text = rest,
            None => return false,
        }
    }
    text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_ours_are_known_with_their_numbers_and_nothing_else_in_them() {
        assert!(is_phrase("Request cancelled") && is_phrase("stopped by operator"));
        assert!(is_phrase("no answer or progress for 2.5s (set by rescind run --timeout)"));
        assert!(is_phrase(
            "answer too large: the message has 70 bytes; the limit is 64 (see rescind run --max-message)"
        ));
        for other in [
            "",
            "Request cancelled ",
            "no answer or progress for hunter2 (set by rescind run --timeout)",
            "no answer or progress for 5shunter2 (set by rescind run --timeout)",
            "no answer or progress for s (set by rescind run --timeout)",
            "hunter2",
        ] {
            assert!(!is_phrase(other), "{other}");
        }
    }

    #[test]
    fn a_word_is_in_a_list_as_a_whole() {
        assert!(METHODS.contains("tools/call") && METHODS.contains("userVerification/cancel"));
        assert!(["tools", "", "ping shutdown", "\n"].iter().all(|one| !METHODS.contains(one)));
    }
}
