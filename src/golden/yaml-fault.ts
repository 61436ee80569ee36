import type { YAMLError } from 'yaml'

/** What is wrong with a YAML text and what to do about it: the parser speaks of indicators, nodes and implicit keys, which whoever writes a flow has never heard of. */
export function faultIn({ code, message, pos: [offset] }: YAMLError, text: string): string {
  const closing = /end with an? ([\]}])|closing (["'])/.exec(message)
  if (closing) return notClosed(closing[1] ?? closing[2]!)
  if (/^Missing , /.test(message)) return 'two entries follow each other without a comma; put one between them'
  if (/^Missing space after :/.test(message)) return 'a colon has its value right behind it; put a space between them'
  if (/^A block sequence|block-seq-ind/.test(message)) return LIST
  if (/at node end$/.test(message)) return AND_MORE
  if (code === 'TAG_RESOLVE_FAILED') return unknownTag(text.slice(offset))
  return SAYS[code] ?? UNCLEAR
}

const NAMED: { readonly [closing: string]: string } = { ']': 'a list', '}': 'a map', '"': 'a text', "'": 'a text' }
const notClosed = (closing: string): string =>
  `${NAMED[closing]} is begun and not ended; end it with ${closing}, and begin each line of it further to the right than the name before it`

function unknownTag(rest: string): string {
  const tag = /^!\S*/.exec(rest)?.[0]
  return tag === undefined
    ? 'a value does not fit its tag; leave the tag out'
    : `the tag ${tag} is not known; write the value without it, and put it in quotes if it is to begin with !`
}

const NAME = 'a name must stand on one line, with a colon and a space behind it'
const INDENT =
  'it begins too far to the left or to the right; begin all entries of a list or map in the same column, with spaces'
const LIST = 'a list begins where none can; begin each - of a list in the same column, on a line of its own'
const AND_MORE =
  'a value is followed by what does not belong to it; put a comma or a new line between them, or all of it in quotes if it is text'
const ANCHOR =
  'an anchor (&name), an alias (*name) or a tag (!name) stands where it cannot; put text that begins so in quotes'
const UNCLEAR =
  'something stands where it cannot; look at the colons, commas, brackets and quotes before it, and put text that has such signs in quotes'

const SAYS: { readonly [code in YAMLError['code']]?: string } = {
  ALIAS_PROPS: ANCHOR,
  BAD_ALIAS: ANCHOR,
  BAD_PROP_ORDER: ANCHOR,
  MULTIPLE_ANCHORS: ANCHOR,
  MULTIPLE_TAGS: ANCHOR,
  BAD_COLLECTION_TYPE: 'a tag does not fit what it stands before; leave it out',
  BAD_DIRECTIVE: 'a line that begins with % is not understood; leave it out',
  BAD_DQ_ESCAPE:
    'a backslash in double quotes is followed by what it cannot stand before; write \\\\ for a backslash, or use single quotes',
  BAD_INDENT: INDENT,
  BAD_SCALAR_START: 'a text begins with a sign that means something else; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'a value is followed by a further colon; put it in quotes if it is text, or begin the next name in the column of the others',
  BLOCK_IN_FLOW: 'within brackets stands what is written in lines; write it in brackets too',
  DUPLICATE_KEY: 'the same name stands there twice; leave one of them out',
  KEY_OVER_1024_CHARS:
    'a name is longer than 1,024 characters; shorten it, or look for a colon that is text, and put that in quotes',
  MISSING_CHAR: `${NAME}; put text that is no name in quotes`,
  MULTILINE_IMPLICIT_KEY: `${NAME}; put text that goes on over several lines in quotes`,
  MULTIPLE_DOCS: 'a second document begins with ---; put it into a file of its own',
  NON_STRING_KEY: 'a name is a list, a map or has a tag; a name is text, so put it in quotes',
  RESOURCE_EXHAUSTION: 'it is nested too deeply; write it flatter',
  TAB_AS_INDENT: 'a line is indented by a tab; use spaces',
}
