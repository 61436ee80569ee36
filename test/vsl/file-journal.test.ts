import { appendFileSync, readdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { OutcomeUnknown } from '../../src/protocol/errors.ts'
import { openJournal } from '../../src/vsl/file-journal.ts'
import { setText } from '../../src/vsl/file-lines.ts'
import { replace } from '../../src/vsl/file-sync.ts'
import { everyFile } from '../support/every-file.ts'
import { tempFolder } from '../support/temp-folder.ts'

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  return { ...real, open: vi.fn(real.open) }
})

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

it('keeps no file open but the one that grows', async () => {
  const journal = await openJournal(tempFolder(), 0, 1)
  onTestFinished(() => journal.close())
  await journal.append([setText('key', 'in a file that is full')])
  await journal.roll()
  vi.mocked(open).mockClear()
  expect(await journal.page(1)).toHaveLength(1)
  const opened = await Promise.all(vi.mocked(open).mock.results.map(({ value }) => value as ReturnType<typeof open>))
  expect(opened.map(({ fd }) => fd)).toEqual([-1])
})

it('goes on in the present file while a new one cannot be had, and begins it when it can', async () => {
  const folder = tempFolder()
  const journal = await openJournal(folder, 0, 1)
  const add = (text: string) => journal.append([setText('key', text)])
  await add('1')
  vi.mocked(open).mockRejectedValueOnce(new Error('EMFILE: too many open files'))
  await expect(journal.roll()).rejects.toThrow('EMFILE')
  await add('2')
  expect(await journal.roll()).toBe(true)
  await add('3')
  await journal.close()
  expect(readdirSync(folder)).toEqual(['000000000001.jsonl', '000000000003.jsonl'])
  const again = await openJournal(folder, 3, 1)
  const lines = [...(await again.page(1)), ...(await again.page(3))]
  expect(lines.map(({ text }) => JSON.parse(text).value)).toEqual([1, 2, 3])
  await again.close()
})

it('does not say that nothing was written when what landed of it could not be taken back', async () => {
  const folder = tempFolder()
  const journal = await openJournal(folder, 0, 1000)
  const files = await everyFile()
  vi.spyOn(files, 'write').mockImplementationOnce(async (bytes) => {
    appendFileSync(join(folder, readdirSync(folder)[0]!), (bytes as unknown as Buffer).subarray(0, -1))
    throw new Error('the disk is full')
  })
  vi.spyOn(files, 'truncate').mockRejectedValueOnce(new Error('the disk is gone'))
  const adding = journal.append([setText('key', '1'), setText('key', '2')])
  await expect(adding).rejects.toThrow(OutcomeUnknown)
  await journal.close()
  const again = await openJournal(folder, 0, 1000)
  expect(again.last).toBe(1)
  await again.close()
})

it('has on the disk what it begins with, before anybody is told of it', async () => {
  const folder = tempFolder()
  const journal = await openJournal(folder, 0, 1000)
  const syncs = vi.spyOn(await everyFile(), 'sync')
  vi.spyOn(await everyFile(), 'datasync').mockRejectedValueOnce(new Error('died here'))
  await expect(journal.append([setText('key', '1')])).rejects.toThrow(OutcomeUnknown)
  await journal.close()
  expect(syncs).not.toHaveBeenCalled()
  const again = await openJournal(folder, 0, 1000)
  expect([again.last, syncs.mock.calls.length]).toEqual([1, 1])
  await again.close()
})

it('leaves nothing half behind of a file that did not fit', async () => {
  const folder = tempFolder()
  vi.spyOn(await everyFile(), 'writeFile').mockRejectedValueOnce(new Error('the disk is full'))
  await expect(replace(join(folder, 'blob'), 'text')).rejects.toThrow('full')
  expect(readdirSync(folder)).toEqual([])
})
