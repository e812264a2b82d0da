export { createLogger, type Logger, type LoggerOptions, type LogLevel, silentLogger } from './logger.js'
export { redactText, redactUrl } from './redact.js'
