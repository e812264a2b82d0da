import { cleanAll, demo, say } from './demo.js'

let interrupted = false

async function stopEarly(): Promise<void> {
  if (interrupted) process.exit(130) // asked twice: watchdogs end what was started
  interrupted = true
  say('\nInterrupted: stopping what was started')
  await cleanAll()
  process.exit(130)
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stopEarly())

try {
  process.exitCode = await demo()
} catch (error) {
  if (!interrupted) say(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
} finally {
  if (!interrupted) await cleanAll()
}
