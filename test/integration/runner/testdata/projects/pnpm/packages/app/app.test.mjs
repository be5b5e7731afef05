import assert from 'node:assert'
import test from 'node:test'
import add from 'add'
import greet from 'greet'

test('adds', () => assert.equal(add(2, 3), 5))
test('greets', () => assert.equal(greet, 'greet 1.0'))
