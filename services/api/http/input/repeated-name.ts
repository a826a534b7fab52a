// JSON.parse keeps the last of several values of one name without a word. Counting the names of a text, beside those of the value
// that was read from it, is cheap enough to do for every request; where a name is repeated matters for the error alone.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Returns how many names the objects of a valid JSON text have in all, repeated ones included. Searches are native, hence fast. */
export function countNames(json: string): number {
  let names = 0;
  let quote = json.indexOf('"');
  let colon = json.indexOf(':');
  while (colon !== -1) {
    if (quote === -1 || colon < quote) {
      names += 1;
      colon = json.indexOf(':', colon + 1);
    } else {
      const end = endOfText(json, quote);
      quote = json.indexOf('"', end + 1);
      if (colon < end) colon = json.indexOf(':', end + 1);
    }
  }
  return names;
}

type Open = { readonly names: Set<string> | undefined; place: string | number };

/** Returns the path of the first name that an object of a valid JSON text has twice; undefined if there is none. */
export function repeatedName(json: string): (string | number)[] | undefined {
  const open: Open[] = [];
  let text = '';
  for (let at = 0; at < json.length; at += 1) {
    const sign = json.charAt(at);
    const inner = open.at(-1);
    if (sign === '"') {
      const end = endOfText(json, at);
      text = json.slice(at, end + 1);
      at = end;
    } else if (sign === ':' && inner?.names !== undefined) {
      inner.place = JSON.parse(text) as string;
      if (inner.names.has(inner.place)) return open.map(({ place }) => place);
      inner.names.add(inner.place);
    } else if (sign === ',' && typeof inner?.place === 'number') inner.place += 1;
    else if (sign === '{') open.push({ names: new Set(), place: '' });
    else if (sign === '[') open.push({ names: undefined, place: 0 });
    else if (sign === '}' || sign === ']') open.pop();
  }
  return undefined;
}

/** Returns where the quote is that ends the text which begins at `start`. Most texts have no quote inside, and need one search. */
function endOfText(json: string, start: number): number {
  let end = json.indexOf('"', start + 1);
  if (!isEscaped(json, end)) return end;
  do end += json.charCodeAt(end) === BACKSLASH ? 2 : 1;
  while (json.charCodeAt(end) !== QUOTE);
  return end;
}

/** An odd number of backslashes before a character escapes it. */
function isEscaped(json: string, at: number): boolean {
  let first = at;
  while (json.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}
