export * from './options.js'
