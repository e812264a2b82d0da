/**
 * Goal: facts are stored exactly, once, and taken back exactly. Method: the core suite on the PostgreSQL of this run.
 */
import { coreSuite } from './core-suite.js'

coreSuite()
