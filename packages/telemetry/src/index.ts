export { type Logger, type LogLevel, createLogger, silentLogger } from './logger.js'
export { redactText, redactUrl } from './redact.js'
