import { expect, it, onTestFinished } from 'vitest'
import { openJournal } from '../../src/vsl/file-journal.ts'
import { setText } from '../../src/vsl/file-lines.ts'
import { tempFolder } from '../support/temp-folder.ts'

it('can be read at any moment while it goes on to a new file', async () => {
  const journal = await openJournal(tempFolder(), 0, 1)
  onTestFinished(() => journal.close())
  for (let line = 1; line <= 100; line++) {
    await journal.append([setText('key', String(line))])
    const rolling = journal.roll()
    let isRolling = true
    void rolling.finally(() => {
      isRolling = false
    })
    while (isRolling) {
      const read = journal.page(line)
      await new Promise((resolve) => setImmediate(resolve))
      expect(await read).toHaveLength(1)
    }
    expect(await rolling).toBe(true)
  }
})
