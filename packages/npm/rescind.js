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
        'Install without --omit=optional; if this system has no package, use cargo install rescind-cli\n',
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
  // A terminal sends what is typed to each process of its group, and so to the program, too. Without a terminal the program
  // has a group of its own, and what is sent to this process or to its group reaches it once.
  const onTerminal = isWindows || [0, 1, 2].some((stream) => require('node:tty').isatty(stream));
  const typed = isWindows ? ['SIGINT', 'SIGBREAK', 'SIGHUP'] : ['SIGINT', 'SIGQUIT'];
  const passed = isWindows ? [] : ['SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
  let child;
  for (const signal of typed) process.on(signal, () => onTerminal || child.kill(signal));
  for (const signal of passed) process.on(signal, () => child.kill(signal));

  // With this name the program knows whose death is its own.
  const env = { ...process.env, RESCIND_LAUNCHER: String(process.pid) };
  const options = { stdio: 'inherit', argv0: 'rescind', env, detached: !onTerminal };
  child = require('node:child_process').spawn(program, args, options);
  child.on('error', (error) => {
    process.stderr.write(`rescind: ${program}: ${error.message}\n`);
    process.exit(126);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    // A shell reports this number, if the signal does not end this process.
    process.exitCode = 128 + require('node:os').constants.signals[signal];
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const program = find();
const args = process.argv.slice(2);
if (!isWindows && typeof process.execve === 'function') become(program, args);
else startAndFollow(program, args);
