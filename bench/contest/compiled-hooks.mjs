const SOURCES = new URL('../../src/', import.meta.url).href
const COMPILED = new URL('../dist/src/', import.meta.url).href

export async function resolve(specifier, context, next) {
  const found = await next(specifier, context)
  if (!found.url.startsWith(SOURCES)) return found
  const url = found.url.replace(SOURCES, COMPILED).replace(/\.ts$/, '.js')
  return { ...found, url, format: 'module' }
}
