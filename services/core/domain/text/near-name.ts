import { distance } from 'fastest-levenshtein';

/** Names that other services use for a field, with the names used here; the first one known in the place is suggested. */
const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  after: ['cursor', 'since'],
  attachment: ['attachments'],
  base64: ['content'],
  before: ['until'],
  callbackurl: ['url'],
  channels: ['channel'],
  clientreference: ['externalId'],
  components: ['variables'],
  config: ['publicConfig'],
  content: ['body', 'bodyText'],
  correlationid: ['externalId'],
  credentials: ['secretConfig'],
  customdata: ['metadata'],
  customheaders: ['headers'],
  customid: ['externalId'],
  data: ['content', 'metadata'],
  deliverat: ['sendAt'],
  deliverytime: ['sendAt'],
  displayname: ['name'],
  enabledevents: ['eventTypes'],
  end: ['until'],
  endpointurl: ['url'],
  environment: ['mode'],
  events: ['eventTypes'],
  expires: ['expiresAt'],
  expiresin: ['ttlSeconds', 'expiresAt'],
  expiry: ['expiresAt'],
  expirydate: ['expiresAt'],
  files: ['attachments'],
  form: ['from'],
  grace: ['graceSeconds'],
  graceperiod: ['graceSeconds'],
  graceperiodseconds: ['graceSeconds'],
  html: ['bodyHtml'],
  htmlbody: ['bodyHtml'],
  htmlcontent: ['bodyHtml'],
  idempotency: ['idempotencyKey'],
  lang: ['language'],
  languagecode: ['language'],
  link: ['url'],
  locale: ['language'],
  message: ['body', 'bodyText'],
  meta: ['metadata'],
  mimetype: ['contentType'],
  pagesize: ['limit'],
  pagetoken: ['cursor'],
  parameters: ['variables'],
  params: ['variables'],
  permissions: ['scopes'],
  perpage: ['limit'],
  plaintext: ['bodyText', 'body'],
  planref: ['plan'],
  provider: ['providerId'],
  provideraccountid: ['providerId'],
  ratelimit: ['rateLimitRpm', 'rateLimitPerSecond'],
  recipient: ['to'],
  ref: ['externalId'],
  reference: ['externalId'],
  referenceid: ['externalId'],
  rpm: ['rateLimitRpm'],
  schedule: ['sendAt'],
  scheduleat: ['sendAt'],
  scheduledat: ['sendAt'],
  scheduledfor: ['sendAt'],
  scheduledtime: ['sendAt'],
  scheduletime: ['sendAt'],
  secret: ['secretConfig'],
  secrets: ['secretConfig'],
  senddate: ['sendAt'],
  sender: ['from'],
  senderid: ['from'],
  sendlater: ['sendAt'],
  sendon: ['sendAt'],
  sendtime: ['sendAt'],
  settings: ['publicConfig'],
  start: ['since'],
  state: ['status'],
  tag: ['tags'],
  tags: ['tag'],
  text: ['bodyText', 'body'],
  textbody: ['bodyText', 'body'],
  timetolive: ['ttlSeconds'],
  ttl: ['ttlSeconds'],
  type: ['contentType', 'channel'],
  useremail: ['email'],
  validityperiod: ['ttlSeconds'],
  vars: ['variables'],
  webhookurl: ['url'],
};

/** Fields of other services without a counterpart here. */
const ABSENT: Readonly<Record<string, { readonly needs: string; readonly hint: string }>> = {
  cc: { needs: 'to', hint: "a message has one recipient, 'to'; send one to each" },
  bcc: { needs: 'to', hint: "a message has one recipient, 'to'; send one to each" },
};

/** Longer names are no typing errors. */
const LENGTH_MAX = 40;

/** Returns a hint that names the field that was probably meant; undefined if none is similar. */
export function nearName(name: string, known: readonly string[]): { readonly hint: string } | undefined {
  if (name.length > LENGTH_MAX) return undefined;
  const plain = plainOf(name);
  const absent = Object.hasOwn(ABSENT, plain) ? ABSENT[plain] : undefined;
  if (absent !== undefined && known.includes(absent.needs)) return absent;
  const meant = sameName(plain, known) ?? otherName(plain, known) ?? closeName(plain, known);
  return meant === undefined ? undefined : { hint: `did you mean '${meant}'?` };
}

function sameName(plain: string, known: readonly string[]): string | undefined {
  return known.find((one) => plainOf(one) === plain);
}

function otherName(plain: string, known: readonly string[]): string | undefined {
  const names = Object.hasOwn(OTHER_NAMES, plain) ? OTHER_NAMES[plain] : undefined;
  return names?.find((one) => known.includes(one));
}

/** Returns a name with at most two letters changed: none for up to 3 letters, one for up to 5, two for longer names. */
function closeName(plain: string, known: readonly string[]): string | undefined {
  const far = plain.length < 4 ? 0 : plain.length < 6 ? 1 : 2;
  let best: { readonly name: string; readonly off: number } | undefined;
  for (const name of known) {
    if (Math.abs(name.length - plain.length) > far) continue;
    const off = distance(plain, plainOf(name));
    if (off <= far && (best === undefined || off < best.off)) best = { name, off };
  }
  return best?.name;
}

function plainOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}
