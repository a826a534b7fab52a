import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bindingText } from '#core/domain/storage/binding.ts';
import { isUuid, type TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError, type Keyring } from './keyring.ts';

const PREFIX = 'local:v1:';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Opens a keyring in a local folder, for development: AES-256-GCM with one data key per tenant, each wrapped by the root key in
 * `root.key` (mode 0600). Several processes may share the folder. Deleting a tenant's file destroys its secrets permanently.
 * @throws if the folder cannot be used or others may read the root key.
 */
export async function openLocalKeyring(dir: string): Promise<Keyring> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const rootFile = join(dir, 'root.key');
  await createOnce(rootFile, randomBytes(KEY_BYTES));
  if (((await stat(rootFile)).mode & 0o077) !== 0)
    throw new Error(`${rootFile} may be read by others; its mode must be 0600`);
  const rootKey = await readFile(rootFile);
  if (rootKey.length !== KEY_BYTES) throw new Error(`${rootFile} does not hold a key of ${KEY_BYTES} bytes`);

  const fileOf = (tenantId: TenantId): string => {
    // The id becomes a file name, so it must be valid.
    if (!isUuid(tenantId)) throw new KeyringError('refused', 'not the id of a tenant');
    return join(dir, `${tenantId}.key`);
  };

  // Read for each call, so that a key deleted by another process is gone for this one too.
  const dataKey = async (tenantId: TenantId): Promise<Buffer> => {
    let wrapped: Buffer;
    try {
      wrapped = await readFile(fileOf(tenantId));
    } catch (error) {
      if (error instanceof KeyringError) throw error;
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      throw isMissing
        ? new KeyringError('key_missing', 'the tenant has no key')
        : new KeyringError('unavailable', 'the key file cannot be read', { cause: error });
    }
    return unseal(rootKey, wrapped, tenantId);
  };

  return {
    async encrypt(binding, plaintext) {
      const key = await dataKey(binding.tenantId);
      return PREFIX + seal(key, plaintext, bindingText(binding)).toString('base64');
    },
    async decrypt(binding, ciphertext) {
      if (!ciphertext.startsWith(PREFIX))
        throw new KeyringError('corrupt', 'the ciphertext is not one of this keyring');
      const key = await dataKey(binding.tenantId);
      return unseal(key, Buffer.from(ciphertext.slice(PREFIX.length), 'base64'), bindingText(binding));
    },
    async ensureKey(tenantId) {
      await createOnce(fileOf(tenantId), seal(rootKey, randomBytes(KEY_BYTES), tenantId));
    },
    isUsable: () => true,
    async [Symbol.asyncDispose]() {
      rootKey.fill(0);
    },
  };
}

function seal(key: Buffer, plaintext: Uint8Array, binding: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(binding));
  return Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

function unseal(key: Buffer, sealed: Buffer, binding: string): Buffer {
  if (sealed.length < IV_BYTES + TAG_BYTES) throw new KeyringError('corrupt', 'the ciphertext is too short');
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(binding)).setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch (error) {
    throw new KeyringError('corrupt', 'the ciphertext is damaged or belongs elsewhere', { cause: error });
  }
}

/** Creates a file once, even if several processes try; no reader ever sees a partial file. */
async function createOnce(file: string, content: Buffer): Promise<void> {
  const draft = `${file}.${process.pid}.${randomBytes(6).toString('hex')}`;
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await handle.close();
    await rm(draft, { force: true });
  }
}
