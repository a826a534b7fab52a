const { DESPATCH_URL, DESPATCH_TOKEN, DESPATCH_TENANT } = process.env;

const response = await fetch(`${DESPATCH_URL}/v1/admin/providers`, {
  method: 'POST',
  headers: {
    Authorization: `Bearer ${DESPATCH_TOKEN}`,
    'X-Tenant-Slug': DESPATCH_TENANT,
    'Content-Type': 'application/json',
  },
  body: JSON.stringify({
    provider: 'twilio',
    label: 'Twilio, main account',
    publicConfig: { accountSid: 'AC00000000000000000000000000000001', from: '+15005550006' },
    secretConfig: { authToken: '0123456789abcdef0123456789abcdef' },
  }),
});
const provider = await response.json();
if (!response.ok) throw new Error(`${provider.statusCode} ${provider.code}: ${provider.message}`);
console.log(JSON.stringify(provider));
