#!/bin/sh
# Makes the secrets that compose.yaml asks for, in a folder `secrets` beside it. Files that are there already are left
# alone.
set -eu
folder="${1:-$(dirname "$0")/secrets}"
umask 077
mkdir -p "$folder"
random() { python3 -c "import secrets; print(secrets.token_urlsafe($1))"; }
make() { [ -s "$folder/$1" ] || cat > "$folder/$1"; }

random 64 | make secret_key
echo "k1:$(python3 -c 'import base64, secrets; print(base64.b64encode(secrets.token_bytes(32)).decode())')" | make encryption_keys
random 24 | make database_password
echo "postgresql://signalbox:$(cat "$folder/database_password")@postgres:5432/signalbox" | make database_url

# Compose hands each file over with its mode, and inside neither Signalbox nor PostgreSQL is root. Outside nobody else
# gets through the folder.
chmod 644 "$folder"/*
