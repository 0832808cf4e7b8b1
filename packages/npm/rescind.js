#!/usr/bin/env node
'use strict';
// Becomes the program of this system, which lies in a package of its own. Where Node cannot do that, it stays as a parent
// that passes signals on and ends as the program ends.

const system = `${process.platform}-${process.arch}`;
const isWindows = process.platform === 'win32';

function find() {
  try {
    return require.resolve(`@rescind/${system}/bin/rescind${isWindows ? '.exe' : ''}`);
  } catch {
    process.stderr.write(
      `rescind: there is no package @rescind/${system} beside this one. ` +
        'Install without --omit=optional; if this system has no package, use cargo install --locked rescind-cli\n',
    );
    process.exit(127);
  }
}

function become(program, args) {
  // Node ignores this signal, and what is started would ignore it, too; once a listener is gone nothing ignores it.
  process.on('SIGXFSZ', () => {});
  process.removeAllListeners('SIGXFSZ');
  // Its warning, that this is experimental, is printed later than this process lasts.
  process.execve(program, ['rescind', ...args], process.env);
}

function startAndFollow(program, args) {
  const { start, isTerminal } = ofNode();
  // A terminal sends what is typed to each process of its group, and so to the program, too. Without a terminal the program
  // has a group of its own, and what is sent to this process or to its group reaches it once.
  const onTerminal = isWindows || [0, 1, 2].some(isTerminal);
  const typed = isWindows ? ['SIGINT', 'SIGBREAK', 'SIGHUP'] : ['SIGINT', 'SIGQUIT'];
  const passed = isWindows ? [] : ['SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
  let kill;
  for (const signal of typed) process.on(signal, () => onTerminal || kill(signal));
  for (const signal of passed) process.on(signal, () => kill(signal));

  // With this name the program knows whose death is its own.
  const env = { ...process.env, RESCIND_LAUNCHER: String(process.pid) };
  kill = start(program, args, env, !onTerminal, (code, signal) => {
    if (!signal) process.exit(code);
    // A shell reports this number, if the signal does not end this process.
    process.exitCode = 128 + require('node:os').constants.signals[signal];
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function failed(program, error) {
  process.stderr.write(`rescind: ${program}: ${error.message}\n`);
  process.exit(126);
}

// How to start a process, and what is a terminal.
function ofNode() {
  // To load `child_process` takes longer than all else here. What it is made of is enough, where it is known: 22.15 has
  // `execve`, so no version to come needs this.
  const isKnown = ['18', '20', '22'].includes(process.versions.node.split('.')[0]);
  if (isKnown && !isWindows && !process.permission) return { start: startWithHandle, isTerminal: process.binding('tty_wrap').isTTY };
  return { start: startAsChild, isTerminal: require('node:tty').isatty };
}

function startWithHandle(program, args, env, detached, onEnd) {
  const handle = new (process.binding('process_wrap').Process)();
  handle.onexit = onEnd;
  const envPairs = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const stdio = [0, 1, 2].map((fd) => ({ type: 'fd', fd }));
  const error = handle.spawn({ file: program, args: ['rescind', ...args], envPairs, stdio, detached });
  if (error) failed(program, new Error(`spawn: ${require('node:util').getSystemErrorName(error)}`));
  return (signal) => handle.kill(require('node:os').constants.signals[signal]);
}

function startAsChild(program, args, env, detached, onEnd) {
  const child = require('node:child_process').spawn(program, args, { stdio: 'inherit', argv0: 'rescind', env, detached });
  child.on('error', (error) => failed(program, error));
  child.on('exit', onEnd);
  return (signal) => child.kill(signal);
}

const program = find();
const args = process.argv.slice(2);
if (!isWindows && typeof process.execve === 'function') become(program, args);
else startAndFollow(program, args);
