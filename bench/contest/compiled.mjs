import { register } from 'node:module'

// Has benchmarks that import the product's sources run what was compiled of them, as users do, and not what tsx makes of them on the way.
register('./compiled-hooks.mjs', import.meta.url)
