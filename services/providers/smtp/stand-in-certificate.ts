/**
 * A self-signed certificate for `mail.test`, `localhost` and 127.0.0.1, valid to 2120. Its private key is public: use it in
 * stand-ins only. Its name constraints restrict it to these names, so a local process may trust it.
 */
export const STAND_IN_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBqjCCAVCgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAltYWlsLnRl
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CW1haWwudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCQIyHaE1P2g296D
Ruku0yPSq+jNWfpqfxOvdbypma9ISDMp04tuiajd2/3cYw3144ZcqAelUaSG/U6Q
qW0OW/ijgZAwgY0wJQYDVR0RBB4wHIIJbWFpbC50ZXN0gglsb2NhbGhvc3SHBH8A
AAEwDwYDVR0TAQH/BAUwAwEB/zA0BgNVHR4BAf8EKjAooCYwC4IJbWFpbC50ZXN0
MAuCCWxvY2FsaG9zdDAKhwh/AAAA/wAAADAdBgNVHQ4EFgQUilz4uB687szjCwJl
veT2fDH4uPUwCgYIKoZIzj0EAwIDSAAwRQIgb7Cxs31sP0uXGYDyGDdEs5fELuSp
lGSvHYy117F8MxUCIQDyfzYAsBy5xfLGTlhgKPYKvWPMGLZWV4ul69cQgpnghg==
-----END CERTIFICATE-----
`;

export const STAND_IN_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgroOQ5x7Q7GjZhH84
n/tMnRvsHw8fclnOAm+hxN/Z72yhRANCAAQkCMh2hNT9oNveg0bpLtMj0qvozVn6
an8Tr3W8qZmvSEgzKdOLbomo3dv93GMN9eOGXKgHpVGkhv1OkKltDlv4
-----END PRIVATE KEY-----
`;
