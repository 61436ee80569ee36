import { Closed } from '../protocol/errors.ts'
import { onAbort } from '../protocol/on-abort.ts'
import { type Wakeable, wakeable } from './wakeable.ts'

/** Those who read on as entries come: asleep until the stream they follow, or for the feed any stream, has news. */
export interface Followers {
  /**
   * Entries, in the form in which the store reads them, by pages until a page is empty; then, if following, again at each news. `nextPage` goes on
   * where it left off. Ends when the signal is aborted. When the store is closed a follower is sent home; whoever wanted a whole answer must not
   * take half of one for it, and gets Closed. Of a feed `stream` is undefined.
   */
  entries<E>(stream: string | undefined, nextPage: () => Promise<readonly E[]>, from: Following): AsyncIterable<E>
  /** These streams have news. */
  wake(streams: Iterable<string>): void
  /** Anything may have happened. */
  wakeAll(): void
  readonly any: boolean
  /** Sends everybody home for good. */
  end(): void
}

interface Following {
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

/**
 * `what` is the store in error messages. `listen` is called when there is a first follower, and none reads before it is done: what happens from
 * then on must lead to a wake.
 */
export function followers(what: string, listen: () => Promise<void>): Followers {
  const beds = new Map<string | undefined, { readonly news: Wakeable; followers: number }>()
  const present = new Set<() => void>()
  let listening: Promise<void> | undefined
  let ended = false

  const enter = (stream: string | undefined): Wakeable => {
    const bed = beds.get(stream) ?? { news: wakeable(), followers: 0 }
    bed.followers++
    beds.set(stream, bed)
    return bed.news
  }
  const leave = (stream: string | undefined) => {
    const bed = beds.get(stream)
    if (bed && --bed.followers === 0) beds.delete(stream)
    if (beds.size === 0) listening = undefined
  }

  return {
    async *entries<E>(stream: string | undefined, nextPage: () => Promise<readonly E[]>, from: Following) {
      const over = () => {
        if (ended && !from.follow) throw new Closed(what)
        return ended || from.signal?.aborted === true
      }
      // Raced against one promise that lasts as long as the follower, every page would be held until its end.
      let goHome = () => {}
      const sendHome = () => goHome()
      const unlessSentHome = (page: Promise<readonly E[]>) =>
        new Promise<readonly E[]>((resolve, reject) => {
          goHome = () => resolve([])
          page.then(resolve, reject)
        })
      const left = new AbortController() // who leaves in the middle is still asleep, and that would stay on a signal which lives on
      const forget =
        from.signal &&
        onAbort(from.signal, () => {
          sendHome()
          left.abort(GONE)
        })
      present.add(sendHome)
      const news = from.follow ? enter(stream) : undefined
      try {
        if (news) {
          listening ??= listen()
          await listening
        }
        // Asleep before it reads: news that come while a page is on its way are not missed.
        let woken = news?.wait(left.signal)
        while (!over()) {
          const page = await unlessSentHome(nextPage())
          for (const entry of page) {
            if (over()) return
            yield entry
          }
          if (page.length > 0 || over()) continue
          if (!news || !(await woken)) return
          woken = news.wait(left.signal)
        }
      } finally {
        forget?.()
        left.abort(GONE)
        present.delete(sendHome)
        if (news) leave(stream)
      }
    },
    wake(streams) {
      let any = false
      for (const stream of streams) {
        any = true
        beds.get(stream)?.news.wake()
      }
      if (any) beds.get(undefined)?.news.wake()
    },
    wakeAll() {
      for (const { news } of beds.values()) news.wake()
    },
    get any() {
      return beds.size > 0
    },
    end() {
      ended = true
      for (const sendHome of present) sendHome()
      for (const { news } of beds.values()) news.end()
    },
  }
}

const GONE = new Error('the follower has left') // without a reason each would make a DOMException with its stack
