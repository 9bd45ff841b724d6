#!/usr/bin/env bash
# Makes a new key pair and signs the demo tokens of envoy/jwt-authn.yaml with it; the private key is thrown away.
# Prints the public key as JWKS: put it into that file. Expects openssl and xxd.

set -euo pipefail
cd "$(dirname "$0")"

key=$(openssl genrsa 2048 2>/dev/null)
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

# sign CLAIMS: a JSON web token (RS256).
sign() {
    local signed
    signed=$(printf '{"alg":"RS256","typ":"JWT","kid":"demo"}' | base64url).$(printf '%s' "$1" | base64url)
    printf '%s.%s\n' "$signed" "$(printf '%s' "$signed" | openssl dgst -sha256 -sign <(printf '%s' "$key") | base64url)"
}

common='"iss":"https://login.example.com","aud":"ledger-api"'
long=4102444800 # 2100-01-01
sign "{$common,\"exp\":$long,\"sub\":\"acme-ci\",\"tenant\":\"acme\",\"tier\":\"standard\"}" >acme.jwt
sign "{$common,\"exp\":$long,\"sub\":\"globex-ci\",\"tenant\":\"globex\",\"tier\":\"standard\"}" >globex.jwt
sign "{$common,\"exp\":1577836800,\"sub\":\"acme-ci\",\"tenant\":\"acme\",\"tier\":\"standard\"}" >expired.jwt

modulus=$(openssl rsa -modulus -noout -in <(printf '%s' "$key") | cut -d= -f2 | xxd -r -p | base64url)
printf '{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"demo","e":"AQAB","n":"%s"}]}\n' "$modulus"
