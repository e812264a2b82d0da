import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'

/**
 * No server may outlive a parent that was killed with -9, and such a parent can do nothing about it any more. So a
 * small detached shell waits on a pipe that closes with the parent, by whatever death, and then stops the server.
 *
 * It is started before the server and told its pid in the same breath in which the server is spawned, so that there
 * is no moment in which a server runs unwatched. It signals a pid only while the `postmaster.pid` of the data
 * folder names it: by then the number may belong to another process.
 */
export class Watchdog {
  readonly #shell: ChildProcess

  /** `removeAfter`: a folder that goes away with the parent. */
  constructor(dataDir: string, removeAfter: string | null) {
    this.#shell = spawn('/bin/sh', ['-c', script, 'lockstep-watchdog', dataDir, removeAfter ?? ''], {
      cwd: '/',
      detached: true, // a Ctrl-C at the terminal is for the parent
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    // Without a shell there is no guard against kill -9; all else works as before.
    this.#shell.on('error', () => {})
    this.#shell.stdin?.on('error', () => {})
    this.#shell.unref()
    if (this.#shell.stdin instanceof Socket) this.#shell.stdin.unref()
  }

  /** The last pid told is the one that is watched. */
  watch(pid: number): void {
    this.#shell.stdin?.write(`${pid}\n`)
  }

  /** After the server has ended: with nothing left to stop the shell leaves. */
  dismiss(): void {
    this.#shell.stdin?.end()
  }
}

const script = `
trap '' INT HUP TERM
data=$1 remove=$2 pid=
while read -r line; do pid=$line; done
alive() { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; }
named() { alive && read -r first 2>/dev/null <"$data/postmaster.pid" && [ "$first" = "$pid" ]; }
waitwhile() { n=0; while "$1" && [ $n -lt "$2" ]; do sleep 0.1 2>/dev/null || sleep 1; n=$((n+1)); done; }
unnamed() { alive && ! named; }
waitwhile unnamed 100
if named; then kill -INT "$pid"; waitwhile named 200; fi
if named; then kill -QUIT "$pid"; waitwhile named 100; fi
there() { rm -rf -- "$remove" 2>/dev/null; [ -e "$remove" ]; }
if [ -n "$remove" ]; then waitwhile there 50; fi
`
