import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'

export interface ProjectFolder {
  readonly dir: string
  /** `config/chains.yaml` in it. */
  readonly config: string
  /** Another config file beside it. */
  write(name: string, config: object): Promise<string>
  remove(): Promise<void>
}

/**
 * A folder with a `config/chains.yaml`, as a user has it.
 *
 * @param parent where it is made: a folder that is removed even if this process is killed, say
 */
export async function createProjectFolder(config: object, parent = tmpdir()): Promise<ProjectFolder> {
  const dir = await mkdtemp(join(parent, 'lockstep-project-'))
  await mkdir(join(dir, 'config'))
  const write = async (name: string, content: object): Promise<string> => {
    const file = join(dir, 'config', name)
    await writeFile(file, stringify(content))
    return file
  }
  return {
    dir,
    config: await write('chains.yaml', config),
    write,
    remove: () => rm(dir, { recursive: true, force: true, maxRetries: 5 }),
  }
}
