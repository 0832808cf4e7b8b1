-- What an editor does with a language server: nvim --headless -u NONE -i NONE -n -S edit.lua
-- RESCIND_SERVER is the server's command as a JSON array, RESCIND_SCENARIO what is done with it. A JSON line on stdout
-- for everything that was seen; what neovim tells its user is on stderr.
local patience = tonumber(vim.env.RESCIND_PATIENCE_MS or 10000)

local function saw(what, fields)
  io.stdout:write(vim.json.encode(vim.tbl_extend('error', { saw = what }, fields or {})) .. '\n')
  io.stdout:flush()
end

local function wait_for(what, condition)
  if not vim.wait(patience, condition, 5) then saw('nothing', { waiting_for = what }) end
end

local function marked(event)
  local file = io.open(vim.env.RESCIND_MARKS)
  if not file then return false end
  local text = file:read('*a')
  file:close()
  return text:find('"event":"' .. event .. '"', 1, true) ~= nil
end

local gone = false
local progress = 0
local diagnosed = false

local function start()
  local id = vim.lsp.start_client({
    name = 'server',
    cmd = vim.json.decode(vim.env.RESCIND_SERVER),
    get_language_id = function() return 'json' end,
    -- When it quits it waits so long for its server; half a second is too short for a busy machine.
    flags = { exit_timeout = patience },
    handlers = {
      ['textDocument/publishDiagnostics'] = function(_, result)
        for _, found in ipairs(result.diagnostics) do saw('diagnostic', { message = found.message }) end
        diagnosed = true
      end,
      ['$/progress'] = function() progress = progress + 1 end,
    },
    on_exit = function(code, signal)
      saw('exit', { code = code, signal = signal })
      gone = true
    end,
  })
  local client = vim.lsp.get_client_by_id(id)
  wait_for('the server', function() return client.initialized end)
  return client
end

local function ask(client, method, params)
  local answer
  local _, request = client.request(method, params, function(err, result)
    answer = { err = err, result = result }
  end)
  return request, function()
    wait_for(method, function() return answer ~= nil end)
    return answer or {}
  end
end

local function stop(client, force)
  client.stop(force)
  wait_for('the exit of the server', function() return gone end)
end

local scenarios = {}

--- A document is opened and looked at; the server is asked to end, or told to by a signal.
local function document()
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { '{ "a": [1, 2, }' })
  vim.api.nvim_buf_set_name(0, vim.env.RESCIND_DOCUMENT)
  local client = start()
  vim.lsp.buf_attach_client(0, client.id)
  local _, symbols = ask(client, 'textDocument/documentSymbol', { textDocument = { uri = vim.uri_from_bufnr(0) } })
  for _, symbol in ipairs(symbols().result or {}) do saw('symbol', { name = symbol.name }) end
  wait_for('diagnostics', function() return diagnosed end)
  return client
end

function scenarios.stopped() stop(document(), false) end
function scenarios.killed() stop(document(), true) end
function scenarios.quit() document() end

--- Work that obeys is cancelled while it runs (neovim hides the answer), and the server, which knows no `shutdown`, is
--- stopped.
function scenarios.cancelled()
  local client = start()
  local request = ask(client, 'work/run', { work = 'A', behaviour = 'obeys', report = 3 })
  wait_for('progress', function() return progress == 3 end)
  client.cancel_request(request)
  wait_for('A to stop', function() return marked('stopped') end)
  local _, echo = ask(client, 'work/run', { work = 'B', behaviour = 'echo' })
  saw('answer', { work = 'B', text = (echo().result or {}).text })
  stop(client, false)
end

local ran, problem = pcall(scenarios[vim.env.RESCIND_SCENARIO])
if not ran then saw('error', { message = problem }) end
vim.cmd(ran and 'qa!' or 'cq')
