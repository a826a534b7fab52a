import { checkServerIdentity, type DetailedPeerCertificate, type PeerCertificate } from 'node:tls';

/** When a certificate is valid, in seconds since the epoch. */
export type CertificateLife = { readonly from: number; readonly to: number };

/**
 * Returns Node's check of a server's name, which also tells of the server's certificate, or of the one above it that ends first.
 * It runs once per handshake in which the certificates were verified, and not where a session is resumed.
 */
export function watchedCertificate(
  onCertificate: (life: CertificateLife) => void,
): (host: string, certificate: PeerCertificate) => Error | undefined {
  return (host, certificate) => {
    const lives = chainOf(certificate).map(lifeOf);
    const first = lives.reduce((one, other) => (other.to < one.to ? other : one));
    if (Number.isFinite(first.to)) onCertificate(first);
    return checkServerIdentity(host, certificate);
  };
}

/** The authority's own certificate names itself as its issuer. */
function chainOf(certificate: PeerCertificate): PeerCertificate[] {
  const chain = [certificate];
  let issuer = (certificate as Partial<DetailedPeerCertificate>).issuerCertificate;
  while (issuer !== undefined && !chain.includes(issuer)) {
    chain.push(issuer);
    issuer = issuer.issuerCertificate;
  }
  return chain;
}

function lifeOf({ valid_from: from, valid_to: to }: PeerCertificate): CertificateLife {
  return { from: Date.parse(from) / 1_000, to: Date.parse(to) / 1_000 };
}
