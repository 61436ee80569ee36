import { hash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { replyCode } from '../protocol/redis-reply.ts'

/** A script and the name under which Redis knows it once it has run. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

/** Redis forgets scripts when it restarts or is told to: then the whole text goes once more. */
export async function run(
  redis: Redis,
  { sha, lua }: Script,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
): Promise<unknown> {
  try {
    return await redis.call('evalsha', [sha, keys.length, ...keys, ...args])
  } catch (error) {
    if (replyCode(error) !== 'NOSCRIPT') throw error
    return redis.call('eval', [lua, keys.length, ...keys, ...args])
  }
}

const script = (lua: string): Script => ({ lua, sha: hash('sha1', lua, 'hex') })

/** The version of what is written here. */
export const SCHEMA = 1

/** One that writes, with meta as the last of its KEYS: what goes into a store that was emptied while it was open would be nobody's. */
const writing = (lua: string): Script => script(`redis.call('HSETNX', KEYS[#KEYS], 'schema', '${SCHEMA}')\n${lua}`)

/**
 * How a store lies in Redis. Every name carries the same hash tag, so a store lives in one slot; all names are fixed, so every script can say
 * which it touches.
 *   meta      hash    schema: its version
 *   heads     hash    stream -> "revision token"
 *   leases    hash    stream -> "until holder", the holder as JSON
 *   journal   stream  id -> stream, revision, body; Redis lets ids only grow, whatever its clock does
 *   places    hash    "revision stream" -> id
 *   values, own, blobs              hash         key -> text or bytes
 *   value-keys, own-keys, digests   sorted set   the same keys with score 0, which Redis keeps in byte order
 *   blob-times  hash  digest -> when it was put last, in milliseconds; older versions have left none
 */
export const keysOf = (prefix: string): Keys => {
  const key = (name: string) => `{${prefix}}:${name}`
  return {
    meta: key('meta'),
    heads: key('heads'),
    leases: key('leases'),
    journal: key('journal'),
    places: key('places'),
    values: { hash: key('values'), order: key('value-keys') },
    own: { hash: key('own'), order: key('own-keys') },
    blobs: { hash: key('blobs'), order: key('digests') },
    blobTimes: key('blob-times'),
    news: key('news'),
  }
}

export interface Keys {
  readonly meta: string
  readonly heads: string
  readonly leases: string
  readonly journal: string
  readonly places: string
  readonly values: OrderedHash
  readonly own: OrderedHash
  readonly blobs: OrderedHash
  readonly blobTimes: string
  /** Not a key: the channel on which the streams of each batch are told. */
  readonly news: string
}

export interface OrderedHash {
  readonly hash: string
  /** Its keys once more. */
  readonly order: string
}

/** KEYS: meta and every other. Returns the schema's version; makes the store if there is nothing; "foreign" if there is something else. */
export const OPEN = script(`
local version = redis.call('HGET', KEYS[1], 'schema')
if version then return version end
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 'foreign' end
end
if ARGV[2] == 'look' then return 'none' end
redis.call('HSET', KEYS[1], 'schema', ARGV[1])
return ARGV[1]
`)

/** In place of an entry; nothing that JSON would say. */
export const FORGET = 'forget'

/**
 * KEYS: heads, journal, places, values, value-keys, meta. ARGV: the channel, how many writes, their streams, then for each write: expected, fence or '',
 * entry or '' or FORGET, how many inserts, puts and deletes, then these. Returns a kind and a detail for each write. Redis does not roll back: every
 * condition is checked before the first change, and what changes goes in as few calls as it can, for calls are what a script costs.
 */
export const COMMIT = writing(`
local heads, journal, places, values, order = unpack(KEYS)
local MANY = 4000 -- unpack has a limit
local function parts(list, act)
  for first = 1, #list, MANY do act(first, math.min(first + MANY - 1, #list)) end
end

local count = tonumber(ARGV[2])
local found = redis.call('HMGET', heads, unpack(ARGV, 3, 2 + count))
local verdicts, entries, forgotten, puts, deletes = {}, {}, {}, {}, {}
local at = 3 + count
for i = 1, count do
  local expected, fence, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local firstPut = at + 6 + 2 * ARGV[at + 3]
  local firstDelete = firstPut + 2 * ARGV[at + 4]
  local next = firstDelete + ARGV[at + 5]
  local revision, token = string.match(found[i] or '0 0', '^(%d+) (%d+)$')
  local kind, detail = 'landed', ''
  if fence ~= '' and fence ~= token then
    kind, detail = 'fenced', token
  elseif expected ~= revision then
    kind, detail = 'conflict', revision
  else
    local inserts = {}
    for key = at + 6, firstPut - 1, 2 do inserts[#inserts + 1] = ARGV[key] end
    parts(inserts, function(first, last)
      for i, known in ipairs(redis.call('HMGET', values, unpack(inserts, first, last))) do
        if known and kind == 'landed' then kind, detail = 'exists', inserts[first + i - 1] end
      end
    end)
    local newest = entry == '${FORGET}' and redis.call('XREVRANGE', journal, '+', '-', 'COUNT', 1)[1]
    if newest and newest[2][2] == ARGV[2 + i] and kind == 'landed' then kind = 'newest' end
  end
  if kind == 'landed' then
    if entry == '${FORGET}' then
      forgotten[#forgotten + 1] = {ARGV[2 + i], revision, token}
    elseif entry ~= '' then
      entries[#entries + 1] = {ARGV[2 + i], string.format('%.0f', revision + 1), entry, token}
    end
    for put = at + 6, firstDelete - 1, 2 do
      puts[#puts + 1] = ARGV[put]
      puts[#puts + 1] = ARGV[put + 1]
    end
    for delete = firstDelete, next - 1 do deletes[#deletes + 1] = ARGV[delete] end
  end
  verdicts[2 * i - 1], verdicts[2 * i] = kind, detail
  at = next
end

local news, advanced, placed = {}, {}, {}
for i, write in ipairs(entries) do news[i] = write[1] end
-- The channel is no key, so nothing has asked for the right to it; nobody can read before this is done.
if #news > 0 then redis.call('PUBLISH', ARGV[1], cjson.encode(news)) end
for i, write in ipairs(entries) do
  local stream, revision, body, token = unpack(write)
  local id = redis.call('XADD', journal, '*', 'stream', stream, 'revision', revision, 'body', body)
  advanced[2 * i - 1], advanced[2 * i] = stream, revision .. ' ' .. token
  placed[2 * i - 1], placed[2 * i] = revision .. ' ' .. stream, id
end
if #news > 0 then
  redis.call('HSET', heads, unpack(advanced))
  redis.call('HSET', places, unpack(placed))
end
for _, write in ipairs(forgotten) do
  local stream, revision, token = unpack(write)
  local named = {}
  for old = 1, revision do named[old] = string.format('%.0f ', old) .. stream end
  parts(named, function(first, last)
    redis.call('XDEL', journal, unpack(redis.call('HMGET', places, unpack(named, first, last))))
    redis.call('HDEL', places, unpack(named, first, last))
  end)
  redis.call('HSET', heads, stream, '0 ' .. token)
end
parts(puts, function(first, last)
  if redis.call('HSET', values, unpack(puts, first, last)) == 0 then return end
  local members = {}
  for i = first, last, 2 do
    members[#members + 1] = '0'
    members[#members + 1] = puts[i]
  end
  redis.call('ZADD', order, unpack(members))
end)
parts(deletes, function(first, last)
  redis.call('HDEL', values, unpack(deletes, first, last))
  redis.call('ZREM', order, unpack(deletes, first, last))
end)
return verdicts
`)

/** KEYS: a hash and its order, meta. ARGV: key, value. */
export const PUT = writing(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], '0', ARGV[1])
`)

/** KEYS: those of blobs, their times, and meta. ARGV: digest, and its bytes or nothing. Returns whether it is there now. */
export const PUT_BLOB = writing(`
local blobs, order, times = unpack(KEYS)
local digest, bytes = unpack(ARGV)
if bytes then
  redis.call('HSET', blobs, digest, bytes)
  redis.call('ZADD', order, '0', digest)
elseif redis.call('HEXISTS', blobs, digest) == 0 then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', times, digest, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return 1
`)

/** KEYS: those of blobs, and their times. ARGV: for how long nobody may have put them, and digests. Returns those that it took away. */
export const FORGET_BLOBS = script(`
local blobs, order, times = unpack(KEYS)
local time = redis.call('TIME')
local latest = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
local gone = {}
for i = 2, #ARGV do
  local put = redis.call('HGET', times, ARGV[i]) or '0'
  if tonumber(put) <= latest and redis.call('HDEL', blobs, ARGV[i]) == 1 then
    redis.call('ZREM', order, ARGV[i])
    redis.call('HDEL', times, ARGV[i])
    gone[#gone + 1] = ARGV[i]
  end
end
return gone
`)

/** KEYS: a hash and its order. ARGV: key. */
export const DELETE = script(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
`)

/**
 * KEYS: heads, leases, meta. ARGV: stream, holder, its id, ttl, and a token or ''. Returns the new token and the revision; or, while somebody else holds the stream, the
 * present token, the revision and the holder. A holder under the token given in ARGV is passed over: the caller has seen that its process is gone.
 * Tokens are taken from the clock: one that was given out and then lost, as by a failover, is not given out again.
 */
export const ACQUIRE = writing(`
local stream, holder, id, ttl, gone = unpack(ARGV)
local revision, token = string.match(redis.call('HGET', KEYS[1], stream) or '0 0', '^(%d+) (%d+)$')
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local till, held = string.match(redis.call('HGET', KEYS[2], stream) or '', '^(%d+) (.*)$')
if held and tonumber(till) > now and token ~= gone and cjson.decode(held).id ~= id then
  return {token, revision, held}
end
token = string.format('%.0f', math.max(token + 1, micros))
redis.call('HSET', KEYS[1], stream, revision .. ' ' .. token)
redis.call('HSET', KEYS[2], stream, string.format('%.0f', now + ttl) .. ' ' .. holder)
return {token, revision}
`)

/** KEYS: heads, leases. ARGV: stream, token, the holder's id, and ttl to renew or '' to release. Returns whether the lease was still held. */
export const KEEP = script(`
local stream, mine, id, ttl = unpack(ARGV)
local token = string.match(redis.call('HGET', KEYS[1], stream) or '0 0', ' (%d+)$')
local holder = string.match(redis.call('HGET', KEYS[2], stream) or '', '^%d+ (.*)$')
if not holder or token ~= mine or cjson.decode(holder).id ~= id then return 0 end
if ttl == '' then
  redis.call('HDEL', KEYS[2], stream)
else
  local time = redis.call('TIME')
  local till = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
  redis.call('HSET', KEYS[2], stream, string.format('%.0f', till) .. ' ' .. holder)
end
return 1
`)

/** KEYS: a hash and its order. ARGV: where to begin, the prefix, how many keys and bytes at most. Returns keys and values in turn. */
export const SCAN = script(`
local found = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '(' .. ARGV[2] .. '\\255', 'LIMIT', 0, ARGV[3])
local page, bytes = {}, 0
for _, key in ipairs(found) do
  local value = redis.call('HGET', KEYS[1], key)
  if value then
    page[#page + 1] = key
    page[#page + 1] = value
    bytes = bytes + #value
    if bytes >= tonumber(ARGV[4]) then break end
  end
end
return page
`)

/** KEYS: journal, places. ARGV: stream, revision, how many entries and bytes at most. Returns id, stream, revision and body in turn. */
export const READ = script(`
local page, bytes = {}, 0
for revision = ARGV[2] + 1, ARGV[2] + ARGV[3] do
  local id = redis.call('HGET', KEYS[2], string.format('%.0f ', revision) .. ARGV[1])
  if not id or bytes >= tonumber(ARGV[4]) then break end
  local fields = redis.call('XRANGE', KEYS[1], id, id)[1][2]
  page[#page + 1] = id
  for i = 2, 6, 2 do page[#page + 1] = fields[i] end
  bytes = bytes + #fields[6]
end
return page
`)

/** KEYS: journal. ARGV: an id, how many entries and bytes at most. Returns the same as READ. */
export const FEED = script(`
local page, bytes, after = {}, 0, ARGV[1]
for _ = 1, ARGV[2] do
  local ms, n = string.match(after, '^(%d+)-(%d+)$')
  local entry = redis.call('XRANGE', KEYS[1], ms .. '-' .. string.format('%.0f', n + 1), '+', 'COUNT', 1)[1]
  if not entry or bytes >= tonumber(ARGV[3]) then break end
  after = entry[1]
  page[#page + 1] = after
  for i = 2, 6, 2 do page[#page + 1] = entry[2][i] end
  bytes = bytes + #entry[2][6]
end
return page
`)
