import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

// Rooms are tested from their sources; only processes that a test starts run from dist (built by `pretest`).
const alias = [
  {
    find: /^@lockstep\/(.+)$/,
    replacement: fileURLToPath(new URL('./packages/$1/src/index.ts', import.meta.url)),
  },
]

export default defineConfig({
  resolve: { alias },
  test: {
    projects: [
      {
        // Beside the code: no I/O beyond loopback, run on each save.
        resolve: { alias },
        test: {
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        // What needs PostgreSQL, nodes or processes. The machine is shared: time limits are for hangs only.
        resolve: { alias },
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          globalSetup: ['test/setup.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 1 }, // after the unit tests: projects with other worker counts run one after the other
        },
      },
    ],
  },
})
