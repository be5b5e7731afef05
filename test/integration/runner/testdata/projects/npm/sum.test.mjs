import assert from 'node:assert'
import test from 'node:test'
import greet from 'greet'

test('greets', () => assert.equal(greet, 'greet 1.0'))
