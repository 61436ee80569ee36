/** The whole number that a text is. To Node much more is one; what is none to people stays as it was given, to be shown so. */
export const numberIn = (text: string): number | string => (/^\d+$/.test(text) ? Number(text) : text)
