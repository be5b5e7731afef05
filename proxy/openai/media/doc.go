// Package media has the images and the files in messages of requests.
package media
