import { createSocket } from 'node:dgram';
import { decode, encode, type Answer, type Question } from 'dns-packet';

export type DnsQuestion = {
  /** Lower case. */
  readonly name: string;
  readonly type: 'A' | 'AAAA';
  /** How often the same question was asked before. */
  readonly before: number;
};

export type DnsReply =
  /** Addresses of the asked type; the server leaves out those of the other type. An empty list is a name without addresses. */
  | readonly string[]
  /** An alias (CNAME) with the addresses of its target. */
  | { readonly alias: string; readonly addresses: readonly string[] }
  | 'unknown name'
  | 'server failure'
  | 'silence';

export type DnsServer = AsyncDisposable & {
  /** In the form that resolvers take: `127.0.0.1:port`. */
  readonly address: string;
  /** The questions as they were asked, one entry for each. */
  readonly asked: readonly Pick<DnsQuestion, 'name' | 'type'>[];
};

const FAILURE_CODES: Readonly<Record<string, number>> = { 'server failure': 2, 'unknown name': 3 };

/** Starts a name server on loopback that answers as the test says, always with a time to live of zero. */
export async function startDnsServer(reply: (question: DnsQuestion) => DnsReply): Promise<DnsServer> {
  const asked: { name: string; type: 'A' | 'AAAA' }[] = [];
  const socket = createSocket('udp4');

  function recordsOf({ name, type }: Question, said: Exclude<DnsReply, string>): Answer[] {
    const isAlias = 'alias' in said;
    const owner = isAlias ? said.alias : name;
    const addresses = (isAlias ? said.addresses : said).filter(
      (address) => (type === 'AAAA') === address.includes(':'),
    );
    return [
      ...(isAlias ? [{ type: 'CNAME' as const, name, ttl: 0, data: said.alias }] : []),
      ...addresses.map((data) => ({ type: type as 'A' | 'AAAA', name: owner, ttl: 0, data })),
    ];
  }

  socket.on('message', (packet, from) => {
    const query = decode(packet);
    const question = query.questions?.[0];
    if (question === undefined || (question.type !== 'A' && question.type !== 'AAAA')) return;
    const { type } = question;
    const name = question.name.toLowerCase();
    const before = asked.filter((one) => one.name === name && one.type === type).length;
    asked.push({ name, type });
    const said = reply({ name, type, before });
    if (said === 'silence') return;
    // The flags RD and RA (recursion desired and available); the low bits are the response code.
    const flags = 0x0180 | (typeof said === 'string' ? (FAILURE_CODES[said] ?? 0) : 0);
    const answers = typeof said === 'string' ? [] : recordsOf(question, said);
    const response = encode({ type: 'response', id: query.id ?? 0, flags, questions: [question], answers });
    socket.send(response, from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    [Symbol.asyncDispose]: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}
